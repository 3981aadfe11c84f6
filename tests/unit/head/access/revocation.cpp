// Certificates of nodes that left, or that joined anew: refused by the head, and made known to every agent.
#include <algorithm>

#include "base/json_text.hpp"
#include "storage/state/journal.hpp"
#include "tests/unit/head_agent.hpp"

using namespace rtrain;
using namespace rtrain::test;

namespace {

std::string serial(const net::Endpoint& node) { return security::serial_of(node.certificate).value(); }

// Returns the head's answer to a request with this node's certificate.
Answer asked_by(const net::Endpoint& node) {
    return HeadUnderTest::send(node, {.method = "HEAD", .target = "/v1/blobs/" + std::string(64, '0')});
}

Answer request_to_join(const HeadUnderTest& head, const std::string& token, const std::string& node,
                       const std::string& request) {
    const json body{{"token", token}, {"node", node}, {"request", request}};
    return HeadUnderTest::send(head.endpoint(""), {.method = "POST", .target = "/v1/join", .body = json_text(body)});
}

bool known(const HeadUnderTest& head, const std::string& node) {
    return eventually([&] { return head.call("GET", "/v1/nodes/" + node).status == 200; });
}

void register_simulated(HandMadeAgent& agent, const std::string& node) {
    agent.say(protocol::Hello{.node = node, .program_version = "test", .boot_id = "b"});
    agent.expect<protocol::Welcome>();
    agent.say(protocol::Register{.address = "127.0.0.1",
                                 .port = 7434,
                                 .labels = {{"simulated", "true"}},
                                 .total = {{"CPU", units(1)}},
                                 .next_news = 1});
}

bool heard_of(HandMadeAgent& agent, const std::string& serial) {
    for (;;) {
        const auto revoked = agent.expect<protocol::Revoked>();
        if (std::count(revoked.serials.begin(), revoked.serials.end(), serial) > 0) return true;
    }
}

}  // namespace

TEST_CASE("the certificate of a node that left is refused, other agents hear of it, and a rejoin does not revive it") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const net::Endpoint old = join(head, "n1"), other = join(head, "n2");
    HandMadeAgent stays(other, "n2");
    stays.register_node();
    {
        HandMadeAgent leaves(old, "n1");
        leaves.register_node();
        REQUIRE(eventually([&] { return head.call("GET", "/v1/nodes/n1").status == 200; }));
        CHECK(asked_by(old).status == 404);  // accepted: there is no such blob
        REQUIRE(head.call("POST", "/v1/nodes/n1/leave").status == 200);
    }
    CHECK(heard_of(stays, serial(old)));
    CHECK(asked_by(old).status == 401);
    const net::Endpoint again = join(head, "n1");
    CHECK(asked_by(again).status == 404);
    CHECK(asked_by(old).status == 401);
    CHECK(asked_by(other).status == 404);
}

TEST_CASE("revocations outlive the head, and an agent hears of all of them when it registers") {
    const TemporaryFolder folder;
    net::Endpoint old, other;
    std::string admin;
    {
        HeadUnderTest head({.data_dir = folder.path});
        admin = head.admin;
        old = join(head, "n1");
        other = join(head, "n2");
        join(head, "n1");  // joins again, with an empty data directory
    }
    HeadUnderTest head({.data_dir = folder.path});
    head.admin = admin;
    old.port = other.port = head.started.port;
    CHECK(asked_by(old).status == 401);
    HandMadeAgent agent(other, "n2");
    agent.register_node();
    CHECK(agent.expect<protocol::Revoked>().serials == std::vector<std::string>{serial(old)});
}

TEST_CASE("a node renews its certificate with the one it has: same name, new serial, both good until it leaves") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    net::Endpoint node = join(head, "n1");
    const auto request = security::make_request("node:somebody-else").value();
    const Answer renewed = HeadUnderTest::send(
        node, {.method = "POST", .target = "/v1/certificate", .body = json_text(json({{"request", request.request}}))});
    REQUIRE(renewed.status == 200);
    net::Endpoint fresh = node;
    fresh.certificate = renewed.body["certificate"];
    fresh.private_key = request.private_key;
    CHECK(serial(fresh) != serial(node));
    CHECK(asked_by(fresh).status == 404);
    CHECK(asked_by(node).status == 404);
    HandMadeAgent agent(fresh, "n1");  // the head chooses the name n1, whatever was requested
    agent.register_node();
    REQUIRE(eventually([&] { return head.call("GET", "/v1/nodes/n1").status == 200; }));
    REQUIRE(head.call("POST", "/v1/nodes/n1/leave").status == 200);
    CHECK(asked_by(fresh).status == 401);
    CHECK(asked_by(node).status == 401);
}

TEST_CASE("a node that is away for a moment keeps its name and its certificate; once it has left, its name is free") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const net::Endpoint node = join(head, "n1");
    {
        HandMadeAgent agent(node, "n1");
        agent.register_node();
        REQUIRE(known(head, "n1"));
    }
    const std::string token = head.make_token("node", "");
    const std::string request = security::make_request("n1").value().request;
    const Answer refused = request_to_join(head, token, "n1", request);
    CHECK(refused.status == 409);
    CHECK(refused.body["message"].get<std::string>().find("'n1' is taken") != std::string::npos);
    CHECK(asked_by(node).status == 404);
    REQUIRE(head.call("POST", "/v1/nodes/n1/leave").status == 200);
    CHECK(request_to_join(head, token, "n1", request).status == 200);  // the token was not used up
    CHECK(asked_by(node).status == 401);
}

TEST_CASE("a malformed signing request revokes nothing and uses up no token") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const net::Endpoint node = join(head, "n1");
    const std::string token = head.make_token("node", "");
    CHECK(request_to_join(head, token, "n1", "no PEM").status >= 400);
    CHECK(asked_by(node).status == 404);
    CHECK(request_to_join(head, token, "n1", security::make_request("n1").value().request).status == 200);
    CHECK(asked_by(node).status == 401);
}

TEST_CASE("a certificate from before serials were kept is revoked too, once its node has registered") {
    const TemporaryFolder folder;
    net::Endpoint old;
    std::string admin;
    {
        HeadUnderTest head({.data_dir = folder.path});
        admin = head.admin;
        old = join(head, "n1");
    }
    REQUIRE(state::SqliteJournal::open(folder.path).value()->erase_settings({"issued/n1"}).ok());
    HeadUnderTest head({.data_dir = folder.path});
    head.admin = admin;
    old.port = head.started.port;
    HandMadeAgent agent(old, "n1");
    agent.register_node();
    REQUIRE(known(head, "n1"));
    REQUIRE(head.call("POST", "/v1/nodes/n1/leave").status == 200);
    join(head, "n1");
    CHECK(asked_by(old).status == 401);
}

TEST_CASE("a node labelled simulated=true that leaves is revoked like any other: agents hear of it") {
    const TemporaryFolder folder;
    HeadUnderTest head({.data_dir = folder.path});
    const net::Endpoint labelled = join(head, "sim-1"), other = join(head, "other"), timers = join(head, "timers");
    HandMadeAgent stays(other, "other"), simulator(timers, "timers");
    stays.register_node();
    CHECK(stays.expect<protocol::Revoked>().serials.empty());  // at its registration
    simulator.say(protocol::Hello{.node = "timers", .program_version = "test", .boot_id = "b"});
    simulator.expect<protocol::Welcome>();
    simulator.say(protocol::Register{.port = 7434, .total = {{"CPU", units(1)}}, .facts = {{"simulated", "one"}}});
    HandMadeAgent leaves(labelled, "sim-1");
    register_simulated(leaves, "sim-1");
    REQUIRE(known(head, "sim-1"));
    REQUIRE(known(head, "timers"));
    REQUIRE(head.call("POST", "/v1/nodes/sim-1/leave").status == 200);
    CHECK(heard_of(stays, serial(labelled)));
    join(head, "sim-1");  // its name no longer belongs to a removed node
    CHECK(asked_by(labelled).status == 401);
    CHECK(!simulator.heard_any<protocol::Revoked>());  // no agent connects to it, and there may be thousands
}
