// A real head on a free port over a temporary data directory, a client that speaks to it, and an agent made by hand
// that speaks the protocol. What is started here is stopped here.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>

#include "daemon/head/head.hpp"
#include "daemon/net/client.hpp"
#include "daemon/protocol/messages.hpp"
#include "daemon/security/security.hpp"
#include "tests/unit/catch.hpp"

namespace rtrain::test {

using nlohmann::json;
inline constexpr std::chrono::seconds patience{10};

struct TemporaryFolder {
    TemporaryFolder() {
        char name[] = "/tmp/rtrain-head-XXXXXX";
        path = mkdtemp(name);
    }
    ~TemporaryFolder() { std::filesystem::remove_all(path); }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    std::string path;
};

struct Answer {
    int status = 0;
    json body;
    std::string text;
};

class HeadUnderTest {
  public:
    explicit HeadUnderTest(HeadOptions options) {
        options.port = 0;
        options.storage_reserve = 0;
        std::promise<HeadStarted_> ready;
        auto started_soon = ready.get_future();
        thread_ = std::thread([options, ready = std::move(ready), this]() mutable {
            served_ = serve_head(options, [&](const HeadStarted_& facts) { ready.set_value(facts); });
            if (!served_) UNSCOPED_INFO("head: " << served_.error().message);
        });
        REQUIRE(started_soon.wait_for(patience) == std::future_status::ready);
        started = started_soon.get();
        if (!started.admin_token.empty()) admin = started.admin_token;
    }
    ~HeadUnderTest() { stop(); }
    HeadUnderTest(const HeadUnderTest&) = delete;
    HeadUnderTest& operator=(const HeadUnderTest&) = delete;

    void stop() {
        if (!thread_.joinable()) return;
        call("POST", "/v1/head/stop");
        thread_.join();
    }

    net::Endpoint endpoint(const std::string& bearer) const {
        net::Endpoint out;
        out.host = "127.0.0.1";
        out.port = started.port;
        out.ca = started.ca;
        out.bearer = bearer;
        return out;
    }
    Answer call(const std::string& method, const std::string& target, const json& body = nullptr) const {
        return call_as(admin, method, target, body);
    }
    Answer call_as(const std::string& bearer, const std::string& method, const std::string& target,
                   const json& body = nullptr) const {
        return send(endpoint(bearer), {.method = method, .target = target, .body = body.is_null() ? "" : body.dump()});
    }
    static Answer send(const net::Endpoint& to, const net::Call& call) {
        net::Client client(to);
        const auto response = client.call(call);
        INFO(call.method << " " << call.target);
        REQUIRE((response ? "" : response.error().message) == std::string());
        return {response->status, json::parse(response->body, nullptr, false), response->body};
    }
    std::string make_token(const std::string& role, const std::string& user) const {
        return call("POST", "/v1/tokens", {{"role", role}, {"user", user}}).body.at("token");
    }

    HeadStarted_ started;
    std::string admin;

  private:
    std::thread thread_;
    Status served_ = Done{};
};

// Waits until `condition` holds; false when patience ran out.
template <class Condition>
bool eventually(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    std::mutex guard;
    std::condition_variable never;
    std::unique_lock lock(guard);
    while (std::chrono::steady_clock::now() < deadline) {
        if (condition()) return true;
        never.wait_for(lock, std::chrono::milliseconds(10));
    }
    return false;
}

// A node's credentials: joined by token, as `rtrain node join` does it.
inline net::Endpoint join(const HeadUnderTest& head, const std::string& node) {
    const std::string token = head.make_token("node", "");
    const auto request = security::make_request(node).value();
    net::Endpoint to = head.endpoint("");
    const Answer joined = HeadUnderTest::send(
        to, {.method = "POST",
             .target = "/v1/join",
             .body = json({{"token", token}, {"node", node}, {"request", request.request}}).dump()});
    REQUIRE(joined.status == 200);
    to.certificate = joined.body.at("certificate");
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

    // Hello and registration with 8 CPUs; gives the head's welcome.
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

    // The next message of this kind; those of other kinds in between are kept for later.
    template <class T>
    T expect() {
        std::unique_lock lock(guard_);
        std::optional<T> found;
        const bool came = news_.wait_for(lock, patience, [&] {
            for (auto at = heard_.begin(); at != heard_.end(); ++at)
                if (T* one = std::get_if<T>(&*at)) {
                    found = std::move(*one);
                    heard_.erase(at);
                    return true;
                }
            return false;
        });
        INFO("waiting for a message of kind " << typeid(T).name() << ", closed: " << closed_);
        REQUIRE(came);
        return *found;
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

inline json job(const std::string& name, int workers = 1) {
    return {{"version", 1}, {"name", name}, {"entrypoint", {"true"}}, {"scaling", {{"workers", workers}}}};
}

}  // namespace rtrain::test
