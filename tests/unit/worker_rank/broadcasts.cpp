// Broadcasts of a rank: one request, one answer, also if a new connection repeats them.
#include "runtime/worker/rank/broadcasts.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain::worker;

namespace {

Broadcast request_in(const std::string& frame) {
    return std::get<Broadcast>(*decode_from_worker(std::string_view(frame).substr(4)));
}

}  // namespace

TEST_CASE("a request is sent again until it is answered") {
    Broadcasts broadcasts;
    CHECK(broadcasts.unanswered() == nullptr);
    CHECK(request_in(broadcasts.begin("seed")) == Broadcast{.index = 1, .data = "seed"});
    REQUIRE(broadcasts.unanswered() != nullptr);
    broadcasts.on_message({.index = 1, .data = "seed"});
    CHECK(broadcasts.unanswered() == nullptr);
    REQUIRE(broadcasts.is_answered());
    CHECK(broadcasts.take_answer() == "seed");
    CHECK_FALSE(broadcasts.is_answered());
}

TEST_CASE("a repeated answer does not answer the next request") {
    Broadcasts broadcasts;
    broadcasts.begin(std::nullopt);
    broadcasts.on_message({.index = 1, .data = "first"});
    broadcasts.on_message({.index = 1, .data = "repeated"});
    CHECK(broadcasts.take_answer() == "first");
    CHECK(request_in(broadcasts.begin(std::nullopt)).index == 2);
    broadcasts.on_message({.index = 1, .data = "repeated"});
    CHECK_FALSE(broadcasts.is_answered());
    broadcasts.on_message({.index = 2, .data = {}});
    CHECK(broadcasts.take_answer().empty());
}

TEST_CASE("a process that takes over a place counts its broadcasts on") {
    Broadcasts broadcasts;
    broadcasts.count_from(9);
    broadcasts.count_from(4);
    CHECK(request_in(broadcasts.begin(std::nullopt)).index == 9);
}
