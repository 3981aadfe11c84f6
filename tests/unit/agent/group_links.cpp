// The server for other agents: the callers that it accepts.
#include "daemon/agent/peers/group_links.hpp"

#include <future>
#include <thread>

#include "daemon/net/client.hpp"
#include "daemon/security/security.hpp"
#include "tests/unit/catch.hpp"
#include "tests/unit/channel_pair.hpp"

using namespace rtrain;
using namespace rtrain::agent;

namespace {

struct Nodes {  // the nodes of one cluster
    security::KeyPair authority = security::make_authority("c0ffee").value();
    net::Endpoint node(const std::string& name) const {
        const auto leaf = security::make_leaf(authority, "node:" + name).value();
        return {.host = "127.0.0.1",
                .ca = authority.certificate,
                .certificate = leaf.certificate,
                .private_key = leaf.private_key};
    }
};

int probe(net::Endpoint from, std::uint16_t port, const std::string& name) {
    from.port = port;
    from.expected_name = "node:" + name;
    const auto answer = net::Client(from).call({.target = "/v1/probe"});
    return answer ? answer->status : 0;
}

}  // namespace

TEST_CASE("an agent answers the nodes of its cluster, and no longer those whose certificate was revoked") {
    const Nodes nodes, strangers;
    const net::Endpoint left = nodes.node("b"), stays = nodes.node("c");
    net::Loop loop;
    auto links = GroupLinks::listen(loop, nodes.node("a"), {}, [](const Input&) {}).value();
    const std::uint16_t port = links->port();
    std::thread thread([&] { loop.run(); });
    CHECK(probe(left, port, "a") == 200);
    std::promise<void> refused;
    loop.post([&] {
        links->refuse({security::serial_of(left.certificate).value()});
        refused.set_value();
    });
    refused.get_future().wait();
    CHECK(probe(left, port, "a") == 403);
    CHECK(probe(stays, port, "a") == 200);
    net::Endpoint stranger = strangers.node("c");
    stranger.ca = nodes.authority.certificate;
    CHECK(probe(stranger, port, "a") == 0);
    const security::KeyPair run = test::channel_pair(*security::make_channel(std::string(32, 'a')));
    stranger.certificate = run.certificate;
    stranger.private_key = run.private_key;
    CHECK(probe(stranger, port, "a") == 0);
    loop.stop();
    thread.join();
    links.reset();
}

TEST_CASE("an agent says whether it has written its probe file for an attempt") {
    const Nodes nodes;
    net::Loop loop;
    auto links = GroupLinks::listen(loop, nodes.node("a"), {}, [](const Input&) {}).value();
    links->answer_probes([](AttemptKey key) { return key == AttemptKey{17, 2}; });
    net::Endpoint from = nodes.node("b");
    from.port = links->port();
    from.expected_name = "node:a";
    std::thread thread([&] { loop.run(); });
    const auto answer = [&](const std::string& query) {
        return net::Client(from).call({.target = "/v1/probe" + query}).value().body;
    };
    CHECK(answer("?run=17&incarnation=2") == R"({"status":"ok","probed":true})");
    CHECK(answer("?run=17&incarnation=1") == R"({"status":"ok","probed":false})");
    CHECK(answer("") == R"({"status":"ok","probed":false})");
    loop.stop();
    thread.join();
    links.reset();
}

TEST_CASE("an agent does not join a coordinator whose certificate was revoked, and leaves one whose is") {
    const Nodes nodes;
    const net::Endpoint revoked = nodes.node("a");
    const AttemptKey attempt{17, 1};
    net::Loop loop;
    std::promise<void> joined, cut, came_back;
    bool again = false, was_cut = false;
    auto coordinator = GroupLinks::listen(loop, revoked, {}, [](const Input&) {}).value();
    auto member = GroupLinks::listen(loop, nodes.node("b"), {}, [&](const Input& input) {
                      if (std::holds_alternative<GroupConnected>(input)) (again ? came_back : joined).set_value();
                      if (std::holds_alternative<GroupCut>(input) && !std::exchange(was_cut, true)) cut.set_value();
                  }).value();
    const protocol::PeerNode peer{.node = "a", .address = "127.0.0.1", .port = coordinator->port(), .ranks = {0}};
    std::thread thread([&] { loop.run(); });
    loop.post([&] { member->dial(attempt, peer); });
    joined.get_future().wait();
    loop.post([&] {
        again = true;
        member->refuse({security::serial_of(revoked.certificate).value()});
    });
    cut.get_future().wait();
    auto later = came_back.get_future();
    CHECK(later.wait_for(std::chrono::milliseconds(400)) == std::future_status::timeout);  // several dials
    loop.post([&] { coordinator->replace_identity(nodes.node("a")); });                    // the node has joined again
    CHECK(later.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
    loop.post([&] { member->close(attempt); });
    loop.post([&] { loop.stop(); });
    thread.join();
}

TEST_CASE("agents listen where the head is, or at the operator's address when it is this machine's") {
    const auto head = [](const char* host) { return net::Endpoint{.host = host, .port = 7433}; };
    CHECK(listening_host("", head("127.0.0.1")) == "127.0.0.1");
    CHECK(listening_host("", head("127.0.0.9")) == "127.0.0.1");
    CHECK(listening_host("", head("localhost")) == "127.0.0.1");  // as the agent connects, whatever /etc/hosts contains
    CHECK(listening_host("", head("no-such-host.invalid")) == "0.0.0.0");
    CHECK(listening_host("127.0.0.7", head("10.0.0.1")) == "127.0.0.7");
    // The address of another machine, which forwards.
    CHECK(listening_host("203.0.113.9", head("127.0.0.1")) == "0.0.0.0");
    CHECK(listening_host("node-1.cluster", head("127.0.0.1")) == "0.0.0.0");
}
