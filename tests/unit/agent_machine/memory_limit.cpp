// Stories of ranks that use more memory than their run asked for.
#include "daemon/agent/machine/memory_limit.hpp"

#include <signal.h>

#include "daemon/agent/machine/machine.hpp"
#include "tests/unit/agent_setup.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;
using namespace rtrain::agent::setup;

namespace {

constexpr std::int64_t MiB = 1 << 20, limit = 300 * MiB;

Machine limited() { return running({.policy = {.memory_bytes = limit}}); }

// Takes one measurement of both ranks. Returns the ranks that it ends.
std::vector<std::uint32_t> measure(Machine& machine, std::int64_t rank_0, std::int64_t rank_1) {
    machine.now = machine.now + Duration{250};
    const Outputs out = machine.take(MemoryMeasured{{{attempt_1, {{0, {.bytes = rank_0}}, {1, {.bytes = rank_1}}}}}});
    std::vector<std::uint32_t> ended;
    for (const SignalWorker& one : all<SignalWorker>(out)) {
        CHECK(one.signal == SIGKILL);
        CHECK(one.descendants);
        ended.push_back(one.rank);
    }
    return ended;
}

}  // namespace

TEST_CASE("a rank that is above its limit in two measurements ends") {
    Machine machine = limited();
    CHECK(measure(machine, limit, 100 * MiB).empty());
    CHECK(measure(machine, limit + 1, 100 * MiB).empty());
    CHECK(measure(machine, limit + 1, 100 * MiB) == std::vector<std::uint32_t>{0});
    CHECK(measure(machine, limit + 1, 100 * MiB).empty());  // it is signalled only once
}

TEST_CASE("a short peak above the limit ends no rank") {
    Machine machine = limited();
    for (int i = 0; i < 4; ++i) {
        CHECK(measure(machine, limit + 1, limit + 20 * MiB).empty());
        CHECK(measure(machine, limit, limit).empty());
    }
}

TEST_CASE("a rank far above its limit ends at the first measurement") {
    Machine machine = limited();
    CHECK(measure(machine, 100 * MiB, limit + limit / 8 + 1) == std::vector<std::uint32_t>{1});
}

TEST_CASE("no rank ends for memory where the run asked for none") {
    Machine machine = running({});
    CHECK(measure(machine, std::int64_t{1} << 40, std::int64_t{1} << 40).empty());
}

TEST_CASE("the cause of a rank that ended for memory has the amount that it used") {
    Machine machine = limited();
    const RankMemory used{.bytes = 400 * MiB - 1,
                          .largest = {{.pid = 7, .bytes = 290 * MiB, .command = "python train.py"},
                                      {.pid = 8, .bytes = 105 * MiB, .command = "python loader.py"}}};
    machine.take(MemoryMeasured{{{attempt_1, {{0, used}}}}});
    const Outputs ended = machine.take(WorkerEnded{attempt_1, 0, {.signal = SIGKILL}, 7});
    const ExitCause cause = news<protocol::Exited>(ended)[0].cause;
    CHECK(cause.out_of_memory);
    CHECK_FALSE(cause.stopped_by_us);
    CHECK(cause.detail ==
          "used 400 MiB of its 300 MiB of memory; largest processes: python train.py (290 MiB), "
          "python loader.py (105 MiB)");
    const std::vector<SignalWorker> others = all<SignalWorker>(ended);
    REQUIRE(others.size() == 1);  // its peer ends with the attempt
    CHECK(others[0].rank == 1);
}

TEST_CASE("a rank that ends well while it is ended for memory succeeds") {
    Machine machine = limited();
    CHECK(measure(machine, 2 * limit, 0) == std::vector<std::uint32_t>{0});
    const Outputs ended = machine.take(WorkerEnded{attempt_1, 0, {.exit_code = 0}, 7});
    CHECK(news<protocol::Exited>(ended)[0].cause == ExitCause{.exit_code = 0});
}

TEST_CASE("large amounts of memory are written in GiB and rounded up") {
    const std::int64_t GiB = std::int64_t{1} << 30;
    CHECK(above_limit({.bytes = 32 * GiB + 1}, 32 * GiB) == "used 32.1 GiB of its 32.0 GiB of memory");
    CHECK(above_limit({.bytes = limit + 1}, limit) == "used 301 MiB of its 300 MiB of memory");
}
