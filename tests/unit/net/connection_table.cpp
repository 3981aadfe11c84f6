// The bounds on a server's connections. Strangers' connections are closed for other strangers, never for known callers.
#include "daemon/net/connection_table.hpp"

#include "tests/unit/net_raw.hpp"
#include "tests/unit/net_world.hpp"

using namespace net_tests;
using namespace std::chrono_literals;
using net::ConnectionLimits;
using net::ConnectionTable;

namespace {

ConnectionLimits small() {
    return {.strangers = 4,
            .strangers_per_address = 3,
            .known = 4,
            .known_per_caller = 2,
            .shared = 3,
            .shared_per_caller = 2,
            .stranger_bytes = 10'000,
            .caller_bytes = 100'000,
            .stranger_burst = 2,
            .stranger_per_s = 1,
            .caller_burst = 5,
            .caller_per_s = 10};
}
const ConnectionTable::Clock::time_point noon{};

// Admits a request with "Authorization: NAME" as NAME, and refuses all others.
net::Admission by_name(const net::Request& head) {
    const std::string name = head.header("authorization");
    if (name.empty()) return {.refusal = net::Response{.status = 401, .body = "who are you?"}};
    return {.caller = name};
}

net::ServerOptions asking(std::size_t connections_max) {
    net::ServerOptions options;
    options.connections_max = connections_max;
    options.admit = by_name;
    return options;
}

std::string post(const std::string& headers, std::size_t length) {
    return "POST /x HTTP/1.1\r\nHost: h\r\n" + headers + "Content-Length: " + std::to_string(length) + "\r\n\r\n";
}

}  // namespace

TEST_CASE("an address with all its connections gives up its oldest one for a new one") {
    ConnectionTable table(small());
    std::vector<int> closed;
    std::vector<std::uint64_t> numbers;
    for (int i = 0; i < 5; ++i) numbers.push_back(table.enter("a", [&closed, i] { closed.push_back(i); }));
    CHECK(closed == std::vector{0, 1});
    CHECK(table.strangers() == 3);
    CHECK(!table.belongs_to(numbers[0], "ana"));  // a closed connection does not become known
    table.enter("b", [] {});
    CHECK(closed.size() == 2);
    table.enter("c", [] {});  // all strangers together may have four: the address with the most connections loses one
    CHECK(closed == std::vector{0, 1, 2});
}

TEST_CASE("of addresses with equally many connections the oldest connection goes, wherever its address sorts") {
    ConnectionTable table(small());
    std::vector<int> closed;
    const auto enter = [&](const std::string& address, int i) {
        return table.enter(address, [&closed, i] { closed.push_back(i); });
    };
    for (int i = 0; i < 4; ++i) enter("198.51.100." + std::to_string(i + 1), i);  // the strangers' bound is reached
    const auto honest = enter("10.0.0.5", 4);                                     // sorts before the other addresses
    for (int i = 5; i < 8; ++i) enter("203.0.113." + std::to_string(i), i);
    CHECK(closed == std::vector{0, 1, 2, 3});
    CHECK(table.belongs_to(honest, "node n1"));
}

TEST_CASE("the addresses of one IPv6 network count as one") {
    ConnectionTable table(small());
    int closed = 0;
    const auto enter = [&](const std::string& address) { return table.enter(address, [&closed] { ++closed; }); };
    const auto first = enter("2001:db8:1:2::1");
    for (const char* other : {"2001:db8:1:2:ffff::2", "2001:db8:1:2::3", "2001:db8:1:2:0:1::"}) enter(other);
    CHECK(closed == 1);  // one party may have three
    CHECK(!table.belongs_to(first, "ana"));
    enter("2001:db8:1:3::1");
    CHECK(closed == 1);
}

TEST_CASE("users share a part of the room of what is known; nodes and admins have the rest") {
    ConnectionTable table(small());
    const auto belongs = [&](const std::string& caller, net::Room room) {
        const auto number = table.enter("a", [] {});
        const bool fits = table.belongs_to(number, caller, room);
        if (!fits) table.leave(number);
        return fits;
    };
    for (const bool fits : {true, true, false}) CHECK(belongs("user ana", net::Room::shared) == fits);
    CHECK(belongs("user ben", net::Room::shared));
    CHECK(!belongs("user cat", net::Room::shared));  // three connections are shared
    CHECK(belongs("node n1", net::Room::reserved));
    CHECK(!belongs("admin", net::Room::reserved));  // four in all
    const ConnectionLimits of = ConnectionLimits::of(8'192);
    CHECK(of.shared <= of.known / 2);
    CHECK(of.shared_per_caller <= of.shared / 4);
}

TEST_CASE("what is known is never closed for strangers, and takes none of their room") {
    ConnectionTable table(small());
    bool closed = false;
    const auto known = table.enter("a", [&closed] { closed = true; });
    REQUIRE(table.belongs_to(known, "ana"));
    CHECK(table.belongs_to(known, "ana"));
    for (int i = 0; i < 50; ++i) table.enter("a", [] {});
    CHECK(!closed);
    CHECK(table.strangers() == 3);
    CHECK(table.belongs_to(table.enter("a", [] {}), "ana"));
    const auto third = table.enter("a", [] {});
    CHECK(!table.belongs_to(third, "ana"));  // ana may have two
    CHECK(table.belongs_to(third, "ben"));
    table.leave(known);
    CHECK(table.belongs_to(table.enter("a", [] {}), "ana"));
}

TEST_CASE("requests of an address, or of a caller, are counted; time gives them back") {
    ConnectionTable table(small());
    const auto stranger = table.enter("a", [] {}), other = table.enter("b", [] {});
    CHECK(table.may_request(stranger, noon));
    CHECK(table.may_request(stranger, noon));
    CHECK(!table.may_request(stranger, noon));
    CHECK(table.may_request(other, noon));
    CHECK(!table.may_request(stranger, noon + 900ms));
    CHECK(table.may_request(stranger, noon + 2s));
    table.give_back_request(stranger);
    CHECK(table.may_request(stranger, noon + 2s));
    REQUIRE(table.belongs_to(stranger, "ana"));
    for (int i = 0; i < 5; ++i) CHECK(table.may_request(stranger, noon + 2s));
    CHECK(!table.may_request(stranger, noon + 2s));
}

TEST_CASE("bytes that were read are held by the address or the caller, until they are given back") {
    ConnectionTable table(small());
    const auto one = table.enter("a", [] {}), two = table.enter("a", [] {});
    CHECK(table.may_hold(one, 14'000));
    CHECK(table.may_hold(two, 4'096));  // not counted
    CHECK(!table.may_hold(two, 1'000));
    table.release_bytes(one);
    CHECK(table.may_hold(two, 10'000));
    REQUIRE(table.belongs_to(two, "ana"));  // the address gets its bytes back
    CHECK(table.may_hold(one, 14'000));
    CHECK(table.may_hold(two, 104'096));
    CHECK(!table.may_hold(two, 1));
    table.leave(two);
    const auto three = table.enter("b", [] {});
    REQUIRE(table.belongs_to(three, "ana"));
    CHECK(table.may_hold(three, 104'096));
}

TEST_CASE("idle strangers do not keep a caller out") {
    TestServer server(echo, asking(16));
    std::vector<std::unique_ptr<RawTcp>> idle;
    for (int i = 0; i < 60; ++i) idle.push_back(std::make_unique<RawTcp>(server.server->port()));
    for (int i = 0; i < 3; ++i) {
        auto answer = net::Client(server.endpoint()).call({.target = "/in", .headers = {{"authorization", "ana"}}});
        if (!answer) FAIL(answer.error().message);
        CHECK(answer->status == 200);
    }
}

TEST_CASE("nothing of a stranger's body is read") {
    TestServer server(echo, asking(64));
    RawTls stranger(server.server->port());
    stranger.say(post("", 10u << 20));  // the body is not sent
    CHECK(stranger.read_all().starts_with("HTTP/1.1 401 "));
    CHECK(server.requests == 0);
}

TEST_CASE("heads that never end are held for one address up to a limit") {
    TestServer server(echo, asking(1'024));
    std::vector<std::unique_ptr<RawTls>> strangers;
    const std::string part = "GET / HTTP/1.1\r\nX: " + std::string(60u << 10, 'x');
    std::size_t closed = 0;
    for (int i = 0; i < 160; ++i) {  // 9.4 MiB
        strangers.push_back(std::make_unique<RawTls>(server.server->port()));
        strangers.back()->say(part);
    }
    for (auto& one : strangers) closed += one->is_closed(100) ? 1 : 0;
    CHECK(closed > 0);
    CHECK(closed < 80);
    auto answer = net::Client(server.endpoint()).call({.target = "/in", .headers = {{"authorization", "ana"}}});
    if (!answer) FAIL(answer.error().message);
    CHECK(answer->status == 200);
}
