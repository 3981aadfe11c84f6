// The place of a rank: when this process represents it, and what it answers otherwise.
#include "runtime/worker/rank/place.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain::worker;

namespace {

RankPlace place_of_rank_3() {
    return {Settings{.socket = "/run/agent.sock", .key = "secret", .attempt = "r7-a2", .rank = 3}, 100};
}

}  // namespace

TEST_CASE("a hello carries the identity of the rank and the process") {
    const Hello hello = place_of_rank_3().hello(Place::wanted);
    CHECK(
        hello ==
        Hello{
            .attempt = "r7-a2", .rank = 3, .pid = 100, .key = "secret", .report_memory = true, .place = Place::wanted});
}

TEST_CASE("a place that another process has is refused with its number") {
    RankPlace place = place_of_rank_3();
    CHECK(place.is_own());
    place.welcomed(42);
    CHECK_FALSE(place.is_own());
    CHECK(place.refusal().find("rank 3 belongs to process 42") == 0);
    place.requested();
    CHECK(place.is_own());
}

TEST_CASE("a process that was welcomed to read has no place") {
    RankPlace place = place_of_rank_3();
    place.welcomed(0);
    place.welcomed_to_read();
    CHECK(place.refusal() == "this is process 100, which only reads what rank 3 is told");
    place.welcomed(42);
    place.welcomed_to_read();
    CHECK(place.refusal().find("process 42") != std::string::npos);
}
