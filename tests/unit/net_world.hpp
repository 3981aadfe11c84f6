// A server on a loop with its own thread, certificates, and a deadline for every wait: shared by the tests of
// daemon/net.
#pragma once

#include <atomic>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/net/client.hpp"
#include "daemon/net/loop/loop.hpp"
#include "daemon/net/server.hpp"
#include "daemon/security/security.hpp"
#include "tests/unit/catch.hpp"

namespace net_tests {

using namespace rtrain;
#if defined(__SANITIZE_ADDRESS__)  // GCC
constexpr bool with_address_sanitizer = true;
#elif defined(__has_feature)  // Clang
constexpr bool with_address_sanitizer = __has_feature(address_sanitizer);
#else
constexpr bool with_address_sanitizer = false;
#endif
constexpr auto patience = std::chrono::seconds(60);  // A sanitizer on a busy machine is slow.

// A value that other threads write and a test waits for.
template <class T>
class Seen {
  public:
    void set(T value) {
        std::lock_guard lock(mutex_);
        values_.push_back(std::move(value));
        changed_.notify_all();
    }
    std::size_t count() const {
        std::lock_guard lock(mutex_);
        return values_.size();
    }
    std::vector<T> all() const {
        std::lock_guard lock(mutex_);
        return values_;
    }
    bool wait(std::size_t count, std::chrono::milliseconds within = patience) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, within, [&] { return values_.size() >= count; });
    }

  private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<T> values_;
};

class LoopThread {
  public:
    LoopThread() : thread_([this] { loop.run(); }) {}
    ~LoopThread() {
        loop.stop();
        thread_.join();
    }
    // Runs `task` on the loop and waits for it.
    void on_loop(std::function<void()> task) {
        std::promise<void> done;
        loop.post([&] {
            task();
            done.set_value();
        });
        done.get_future().wait();
    }
    net::Loop loop;

  private:
    std::thread thread_;
};

struct Pki {
    security::KeyPair authority = *security::make_authority("c1");
    security::KeyPair head = *security::make_leaf(authority, "rtrain-head");
    security::KeyPair node = *security::make_leaf(authority, "node:n1");
    std::string fingerprint = *security::fingerprint(authority.certificate);
    net::TlsIdentity identity() const {
        return {.certificate_chain = head.certificate + authority.certificate,
                .private_key = head.private_key,
                .ca = authority.certificate};
    }
};
inline const Pki& pki() {
    static const Pki one;
    return one;
}

// The server lives on a loop with its own thread; `handler` runs there.
struct TestServer {
    explicit TestServer(net::Handler handler, net::ServerOptions options = {}) {
        if (options.identity.private_key.empty()) options.identity = pki().identity();
        home.on_loop([&] {
            auto listening =
                net::Server::listen(home.loop, options, [this, handler](net::Request request, auto responder) {
                    ++requests;
                    handler(std::move(request), std::move(responder));
                });
            if (!listening) FAIL(listening.error().message);
            server = std::move(listening).value();
        });
    }
    ~TestServer() { stop(); }
    void stop() {
        home.on_loop([&] { server.reset(); });
    }
    net::Endpoint endpoint() const {
        return {.host = "127.0.0.1", .port = server->port(), .ca = pki().authority.certificate};
    }
    std::atomic<int> requests = 0;
    LoopThread home;
    std::unique_ptr<net::Server> server;
};

inline void echo(net::Request request, std::shared_ptr<net::Responder> responder) {
    responder->send({.body = request.method + " " + request.path + " " + request.body, .content_type = "text/plain"});
}

}  // namespace net_tests
