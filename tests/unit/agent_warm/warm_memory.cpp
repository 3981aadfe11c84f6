// The choice of an agent whether it forks workers, and the memory of the templates.
#include "daemon/agent/base/warm_memory.hpp"

#include "daemon/agent/base/limits.hpp"
#include "tests/unit/catch.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30, mib = std::int64_t{1} << 20;

AgentOptions with(WarmMode mode, std::int64_t memory = 0, std::int64_t agents_here = 1) {
    AgentOptions options;
    options.warm = mode;
    options.warm_memory = memory;
    options.agents_here = agents_here;
    return options;
}

}  // namespace

TEST_CASE("off makes no template and gives no reason") {
    CHECK(decide_warm_starts(with(WarmMode::off), 64 * gib) == WarmDecision{});
    CHECK(decide_warm_starts(with(WarmMode::off, 4 * gib), 64 * gib) == WarmDecision{});
}

TEST_CASE("automatic takes a tenth of the node's memory, at most 8 GiB") {
    const WarmDecision decision = decide_warm_starts(with(WarmMode::automatic), 40 * gib);
    CHECK(decision == WarmDecision{.on = true, .memory_max = 4 * gib, .memory_left = 4 * gib, .why_off = ""});
    CHECK(decide_warm_starts(with(WarmMode::automatic), 2'000 * gib).memory_max == 8 * gib);
}

TEST_CASE("automatic is off where a tenth of the memory holds no template") {
    CHECK(decide_warm_starts(with(WarmMode::automatic), 10 * limits::template_memory).on);
    const WarmDecision decision = decide_warm_starts(with(WarmMode::automatic), 4'000 * mib);
    CHECK_FALSE(decision.on);
    CHECK(decision.why_off ==
          "the templates' share of this node's memory, 400 MiB, is too small for one template (512 MiB); --warm-memory "
          "sets another amount");
    CHECK_FALSE(decide_warm_starts(with(WarmMode::automatic), 0).on);
}

TEST_CASE("agents of one machine divide the tenth of its memory") {
    CHECK(decide_warm_starts(with(WarmMode::automatic, 0, 4), 40 * gib).memory_max == gib);
    CHECK_FALSE(decide_warm_starts(with(WarmMode::automatic, 0, 16), 40 * gib).on);
}

TEST_CASE("an amount that is given replaces the share, also on a small node") {
    CHECK(decide_warm_starts(with(WarmMode::automatic, gib), 2 * gib).memory_max == gib);
    CHECK(decide_warm_starts(with(WarmMode::on, gib), 2 * gib).memory_max == gib);
}

TEST_CASE("on takes 2 GiB, whatever the node has, and keeps no memory free") {
    const WarmDecision decision = decide_warm_starts(with(WarmMode::on), 4 * gib);
    CHECK(decision == WarmDecision{.on = true, .memory_max = 2 * gib, .memory_left = 0, .why_off = ""});
    CHECK(why_no_memory(decision, 100 * mib).empty());
}

TEST_CASE("automatic makes no template that leaves less than a tenth of the memory") {
    const WarmDecision decision = decide_warm_starts(with(WarmMode::automatic), 40 * gib);
    CHECK(why_no_memory(decision, 4 * gib + limits::template_memory).empty());
    CHECK(why_no_memory(decision, 4 * gib) ==
          "the node has 4096 MiB of memory available, and a template needs 512 MiB beside the 4096 MiB that stay free");
}
