// A real head on a free port over a temporary data directory, a client of it, and an agent made by hand. All that is
// started here is stopped here.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "base/json_text.hpp"
#include "daemon/head/head.hpp"
#include "daemon/net/client.hpp"
#include "tests/unit/catch.hpp"

namespace rtrain::test {

using nlohmann::json;
inline constexpr std::chrono::seconds patience{60};

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
// Returns whether the answer's text contains the words.
inline bool says(const Answer& answer, const std::string& words) {
    return answer.text.find(words) != std::string::npos;
}

class HeadUnderTest {
  public:
    explicit HeadUnderTest(HeadOptions options) {
        options.port = 0;
        if (options.storage_reserve == HeadOptions{}.storage_reserve) options.storage_reserve = 0;
        if (options.node_timeout_ms == HeadOptions{}.node_timeout_ms) options.node_timeout_ms = 600'000;
        if (options.logs_reserve == HeadOptions{}.logs_reserve) options.logs_reserve = 0;
        std::promise<HeadListening> ready;
        auto started_soon = ready.get_future();
        thread_ = std::thread([options, ready = std::move(ready), this]() mutable {
            served_ = serve_head(options, [&](const HeadListening& facts) { ready.set_value(facts); });
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

    // Returns how serving ended, for a head that ends by itself.
    Status outcome() {
        thread_.join();
        return served_;
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
        return send(endpoint(bearer),
                    {.method = method, .target = target, .body = body.is_null() ? "" : json_text(body)});
    }
    static Answer send(const net::Endpoint& to, const net::Call& call) {
        net::Client client(to);
        const auto response = client.call(call);
        // Some tests call from several threads, and Catch's macros are for one thread. Only a failure uses them.
        if (!response) FAIL(call.method << " " << call.target << ": " << response.error().message);
        return {response->status, parse_json(response->body), response->body};
    }
    std::string make_token(const std::string& role, const std::string& user) const {
        return call("POST", "/v1/tokens", {{"role", role}, {"user", user}}).body.at("token");
    }

    HeadListening started;
    std::string admin;

  private:
    std::thread thread_;
    Status served_ = Done{};
};

// Waits until `condition` holds. Returns false if it does not hold in time.
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

inline json job(const std::string& name, int workers = 1) {
    return {{"version", 1}, {"name", name}, {"entrypoint", {"true"}}, {"scaling", {{"workers", workers}}}};
}

}  // namespace rtrain::test
