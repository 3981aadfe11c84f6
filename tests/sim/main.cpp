// The simulator's command line.
//   sim --seeds 0..2000        runs them; exit 1 and the seed's number on the first violation
//   sim --seed N [--trace]     one seed, with everything that happens
//   ... --budgets              queues have budgets of GPU time
//   ... --yielding             runs and sessions have helpers that may yield
//   sim --expect-violation --seeds 0..500    for planted bugs: exit 0 once a violation is found
#include <cstdlib>
#include <cstring>
#include <optional>

#include "tests/sim/world.hpp"

namespace {

using namespace rtrain::sim;

struct Outcome {
    std::uint64_t hash = 0;
    std::optional<std::string> violation;
};

Outcome run_seed(std::uint64_t seed, bool print, Load load) {
    World world(seed, print, load);
    Outcome outcome;
    try {
        world.run();
    } catch (const Violation& violation) {
        outcome.violation = violation.what;
        world.say("oracle", "VIOLATION: " + violation.what);
    }
    outcome.hash = world.trace.hash();
    return outcome;
}

int usage() {
    std::fprintf(stderr,
                 "usage: sim --seeds A..B [--expect-violation] [LOAD] | --seed N [--trace] [LOAD]\n"
                 "LOAD: --budgets, --yielding\n");
    return 2;
}

int run_seeds(std::uint64_t from, std::uint64_t to, bool expect_violation, Load load) {
    std::uint64_t all = 0;
    for (std::uint64_t seed = from; seed < to; ++seed) {
        const Outcome outcome = run_seed(seed, false, load);
        all = all * 31 + outcome.hash;
        if (!outcome.violation) continue;
        std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), outcome.violation->c_str());
        if (!expect_violation) std::printf("replay: sim --seed %llu --trace\n", static_cast<unsigned long long>(seed));
        return expect_violation ? 0 : 1;
    }
    std::printf("%llu seeds, no violation, traces %016llx\n", static_cast<unsigned long long>(to - from),
                static_cast<unsigned long long>(all));
    return expect_violation ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::optional<std::uint64_t> seed;
    std::uint64_t from = 0, to = 0;
    bool trace = false, expect_violation = false;
    Load load;
    for (int i = 1; i < argc; ++i) {
        const bool more = i + 1 < argc;
        if (!std::strcmp(argv[i], "--seed") && more) {
            seed = std::strtoull(argv[++i], nullptr, 10);
        } else if (!std::strcmp(argv[i], "--seeds") && more) {
            char* end = nullptr;
            from = std::strtoull(argv[++i], &end, 10);
            if (std::strncmp(end, "..", 2) != 0) return usage();
            to = std::strtoull(end + 2, nullptr, 10);
        } else if (!std::strcmp(argv[i], "--trace")) {
            trace = true;
        } else if (!std::strcmp(argv[i], "--budgets")) {
            load.budgets = Budgets::some;
        } else if (!std::strcmp(argv[i], "--yielding")) {
            load.helpers = Helpers::some;
        } else if (!std::strcmp(argv[i], "--expect-violation")) {
            expect_violation = true;
        } else {
            return usage();
        }
    }
    if (!seed && to <= from) return usage();
    if (!seed) return run_seeds(from, to, expect_violation, load);
    const Outcome first = run_seed(*seed, trace, load), again = run_seed(*seed, false, load);
    std::printf("seed %llu: trace %016llx, %s\n", static_cast<unsigned long long>(*seed),
                static_cast<unsigned long long>(first.hash),
                first.violation ? first.violation->c_str() : "no violation");
    if (first.hash != again.hash)
        std::printf("the same seed gave another trace: %016llx\n", static_cast<unsigned long long>(again.hash));
    return first.violation || first.hash != again.hash ? 1 : 0;
}
