// An agent made by hand: it joins as `rtrain node join` does, dials the head, and sends the protocol's messages one by
// one.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <typeinfo>
#include <vector>

#include "base/json_text.hpp"
#include "daemon/protocol/messages.hpp"
#include "daemon/security/security.hpp"
#include "tests/unit/head_fixture.hpp"

namespace rtrain::test {

// Returns a node's credentials after a join by token, as in `rtrain node join`.
inline net::Endpoint join(const HeadUnderTest& head, const std::string& node) {
    const std::string token = head.make_token("node", "");
    const auto request = security::make_request(node).value();
    net::Endpoint to = head.endpoint("");
    const Answer answer = HeadUnderTest::send(
        to, {.method = "POST",
             .target = "/v1/join",
             .body = json_text(json({{"token", token}, {"node", node}, {"request", request.request}}))});
    REQUIRE(answer.status == 200);
    to.certificate = answer.body.at("certificate");
    to.private_key = request.private_key;
    return to;
}

class HandMadeAgent {
  public:
    HandMadeAgent(net::Endpoint endpoint, std::string node) : endpoint_(std::move(endpoint)), node_(std::move(node)) {
        thread_ = std::thread([this] { loop_.run(); });
        dial();
    }
    ~HandMadeAgent() {
        loop_.stop();
        thread_.join();
    }
    HandMadeAgent(const HandMadeAgent&) = delete;
    HandMadeAgent& operator=(const HandMadeAgent&) = delete;

    void dial() {
        net::SocketEvents events;
        events.on_text = [this](std::string text) { heard(std::move(text)); };
        events.on_closed = [this](const std::string& why) { closed(why); };
        std::promise<Result<std::shared_ptr<net::Socket>>> promise;
        auto soon = promise.get_future();
        loop_.post([&] {
            net::dial_socket(
                loop_, endpoint_, "/v1/agents", std::move(events),
                [&](Result<std::shared_ptr<net::Socket>> socket) { promise.set_value(std::move(socket)); });
        });
        REQUIRE(soon.wait_for(patience) == std::future_status::ready);
        auto socket = soon.get();
        REQUIRE((socket ? "" : socket.error().message) == std::string());
        socket_ = std::move(*socket);
    }

    void say(const protocol::FromAgent& message) {
        loop_.post([socket = socket_, text = protocol::encode(message)] { socket->send(text); });
    }
    void tell(const decltype(protocol::News::what)& what) { say(protocol::News{++seq, what}); }

    // Sends the hello and a registration with 8 CPUs. Returns the head's welcome.
    protocol::Welcome register_node(const std::vector<protocol::AttemptRef>& held = {}) {
        say(protocol::Hello{.node = node_, .program_version = "test", .boot_id = "b"});
        const auto welcome = expect<protocol::Welcome>();
        say(protocol::Register{.address = "127.0.0.1",
                               .port = 7434,
                               .labels = {{"zone", "a"}},
                               .total = {{"CPU", units(8)}, {"memory", units(1'000'000)}},
                               .held = held,
                               .next_news = seq + 1,
                               .facts = {{"hostname", node_}}});
        return welcome;
    }

    // Returns the next message of this kind. Messages of other kinds are kept for later calls.
    template <class T>
    T expect() {
        std::unique_lock lock(guard_);
        std::optional<T> expected;
        const bool came = news_.wait_for(lock, patience, [&] {
            for (auto at = heard_.begin(); at != heard_.end(); ++at)
                if (T* one = std::get_if<T>(&*at)) {
                    expected = std::move(*one);
                    heard_.erase(at);
                    return true;
                }
            return false;
        });
        INFO("waiting for a message of kind " << typeid(T).name() << ", closed: " << closed_);
        REQUIRE(came);
        return *expected;
    }
    template <class T>
    bool heard_any() {
        const std::lock_guard lock(guard_);
        for (const auto& one : heard_)
            if (std::holds_alternative<T>(one)) return true;
        return false;
    }
    std::string expect_closed() {
        std::unique_lock lock(guard_);
        REQUIRE(news_.wait_for(lock, patience, [&] { return !closed_.empty(); }));
        return closed_;
    }

    std::uint64_t seq = 0;

  private:
    void heard(std::string text) {
        auto message = protocol::decode_from_head(text);
        const std::lock_guard lock(guard_);
        if (message) heard_.push_back(std::move(*message));
        news_.notify_all();
    }
    void closed(const std::string& why) {
        const std::lock_guard lock(guard_);
        closed_ = "closed: " + why;
        news_.notify_all();
    }

    net::Endpoint endpoint_;
    std::string node_;
    net::Loop loop_;
    std::thread thread_;
    std::shared_ptr<net::Socket> socket_;
    std::mutex guard_;
    std::condition_variable news_;
    std::deque<protocol::FromHead> heard_;
    std::string closed_;
};

// Answers the orders of one attempt until its workers run.
inline protocol::AttemptRef start_attempt(HandMadeAgent& agent, std::uint32_t world_size) {
    const auto prepare = agent.expect<protocol::Prepare>();
    CHECK(prepare.claim);
    agent.tell(protocol::Prepared{
        .attempt = prepare.attempt, .claimed = true, .master_address = "127.0.0.1", .master_port = 20'000});
    const auto launch = agent.expect<protocol::Launch>();
    CHECK(launch.workers.size() == world_size);
    for (std::uint32_t rank = 0; rank < world_size; ++rank)
        agent.tell(protocol::Started{.attempt = launch.attempt, .rank = rank, .pid = 100 + rank, .host = "here"});
    return launch.attempt;
}

inline ExitCause exited(int code) {
    ExitCause cause;
    cause.exit_code = code;
    return cause;
}

// Reports that the attempt's workers ended with 0 and that the node is empty.
inline void end_well(HandMadeAgent& agent, protocol::AttemptRef attempt, std::uint32_t world_size) {
    for (std::uint32_t rank = 0; rank < world_size; ++rank)
        agent.tell(protocol::Exited{.attempt = attempt, .rank = rank, .cause = exited(0), .exit_wall_us = 1});
    agent.expect<protocol::Stop>();
    agent.tell(protocol::Emptied{attempt});
}

inline std::string state_of(const HeadUnderTest& head, const std::string& run) {
    return head.call("GET", "/v1/runs/" + run).body.value("state", "");
}

}  // namespace rtrain::test
