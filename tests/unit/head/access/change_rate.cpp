// The rate of changes with one token.
#include "daemon/head/access/change_rate.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain::head;

TEST_CASE("a token's changes are bounded, and come back with time") {
    ChangeRate rate;
    for (std::int64_t i = 0; i < ChangeRate::burst; ++i) REQUIRE(rate.take("token a", 1'000'000) == 0);
    CHECK(rate.take("token a", 1'000'000) > 0);
    CHECK(rate.take("token b", 1'000'000) == 0);
    std::int64_t taken = 0;
    for (std::int64_t ms = 0; ms < 1'000; ++ms) taken += rate.take("token a", 1'000'000 + ms) == 0;
    CHECK(taken >= ChangeRate::each_second - 1);
    CHECK(taken <= ChangeRate::each_second);
    CHECK(rate.take("token a", 1'100'000) == 0);
}

TEST_CASE("changes count for the token, the session or all runs of the user") {
    CHECK(party_of_changes({.role = Role::admin, .user = "root", .node = "", .token_id = "t1"}).empty());
    CHECK(party_of_changes({.role = Role::user, .user = "ana", .node = "", .token_id = "t2"}) == "token t2");
    CHECK(party_of_changes({.role = Role::user, .user = "ana", .node = "", .token_id = "run-7", .run = "run-7"}) ==
          party_of_changes({.role = Role::user, .user = "ana", .node = "", .token_id = "run-8", .run = "run-8"}));
    CHECK(party_of_changes({.role = Role::user, .user = "ana", .node = "", .token_id = "", .session = "s"}) ==
          "session s");
}
