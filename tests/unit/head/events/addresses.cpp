// A node at a loopback address beside other nodes that are not: one notice, and a warning while that is so.
#include "daemon/head/events/addresses.hpp"

#include "tests/unit/catch.hpp"

using namespace rtrain::head;

TEST_CASE("loopback addresses are those that lead to oneself") {
    for (const char* own : {"127.0.0.1", "127.1.2.3", "::1", "localhost", "::ffff:127.0.0.1"}) CHECK(is_loopback(own));
    for (const char* other : {"10.77.0.3", "fe80::1", "node-1.lan", "::ffff:10.0.0.1", "12.7.0.1", ""})
        CHECK_FALSE(is_loopback(other));
}

TEST_CASE("nodes of one machine, or all at other addresses, are left alone") {
    Addresses all;
    CHECK_FALSE(all.known("a", "127.0.0.1"));
    CHECK_FALSE(all.known("b", "127.0.0.1"));
    CHECK(all.warning("a").empty());
    Addresses far;
    CHECK_FALSE(far.known("a", "10.0.0.1"));
    CHECK_FALSE(far.known("b", "10.0.0.2"));
    CHECK(far.warning("a").empty());
}

TEST_CASE("a loopback address beside another is said of its node, whoever came first") {
    Addresses first;
    first.known("n1", "127.0.0.1");
    const auto later = first.known("n2", "10.0.0.2");
    REQUIRE(later);
    CHECK(later->node == "n1");
    Addresses second;
    second.known("n2", "10.0.0.2");
    const auto now = second.known("n1", "127.0.0.1");
    REQUIRE(now);
    CHECK(now->node == "n1");
    for (const Addresses& some : {first, second}) {
        CHECK(some.warning("n1") == now->text);
        CHECK(some.warning("n2").empty());
    }
    for (const char* part : {"127.0.0.1", "n2 is at 10.0.0.2", "node join --address"})
        CHECK(now->text.find(part) != std::string::npos);
}

TEST_CASE("it is said once of each node, and of many at once in one line") {
    Addresses some;
    for (const char* name : {"a", "b", "c"}) some.known(name, "127.0.0.1");
    const auto warning = some.known("far", "10.0.0.2");
    REQUIRE(warning);
    CHECK(warning->text.ends_with("so it is with 2 more"));
    CHECK_FALSE(some.known("a", "127.0.0.1"));  // its agent was restarted
    CHECK_FALSE(some.known("further", "10.0.0.3"));
    CHECK(some.known("d", "127.0.0.1"));
    CHECK(some.known("further", "127.0.0.1"));  // it has a new address
}

TEST_CASE("another address, or the end of the other node, mends it") {
    Addresses some;
    some.known("a", "127.0.0.1");
    some.known("b", "127.0.0.1");
    some.known("far", "10.0.0.2");
    CHECK_FALSE(some.known("a", "10.0.0.1"));
    CHECK(some.warning("a").empty());
    CHECK_FALSE(some.warning("b").empty());
    some.forget("a");
    some.forget("far");
    CHECK(some.warning("b").empty());
    CHECK(some.known("far", "10.0.0.2"));  // anew
}
