// A separate pool of threads for each place, so that a call that hangs at one place blocks no other place.
#include "daemon/net/loop/place_pools.hpp"

#include <pthread.h>

#include <csignal>
#include <future>
#include <set>

#include "tests/unit/net_world.hpp"

using namespace net_tests;

namespace {

struct Hanging {
    std::promise<void> promise;
    std::shared_future<void> let_go = promise.get_future().share();
};

}  // namespace

TEST_CASE("work that hangs at one place does not keep another place's, nor the work of no place") {
    Hanging hang;
    Seen<std::string> done;
    net::PlacePools pools(net::ThreadPriority::normal);
    for (int i = 0; i < 20; ++i) pools.add("/hung", [&] { hang.let_go.wait(); });
    for (const char* place : {"/a", "/b", ""}) pools.add(place, [&, place] { done.set(place); });
    CHECK(done.wait(3));
    CHECK(pools.threads() <= 4 + 3);
    hang.promise.set_value();
}

TEST_CASE("many places that hang leave threads for one more") {
    Hanging hang;
    Seen<int> done;
    net::PlacePools pools(net::ThreadPriority::normal, {.per_place = 4, .total = 64, .idle = std::chrono::seconds(10)});
    for (int place = 0; place < 20; ++place)
        for (int i = 0; i < 4; ++i) pools.add("/hung" + std::to_string(place), [&] { hang.let_go.wait(); });
    CHECK(pools.threads() < 64);
    for (int i = 0; i < 10; ++i) pools.add("/good", [&, i] { done.set(i); });
    CHECK(done.wait(10));
    CHECK(done.all().front() == 0);
    CHECK(pools.threads() <= 64);
    hang.promise.set_value();
}

TEST_CASE("threads without work end but for one, and work that comes later gets others") {
    Seen<int> done;
    net::PlacePools pools(net::ThreadPriority::normal,
                          {.per_place = 4, .total = 8, .idle = std::chrono::milliseconds(1)});
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 8; ++i) pools.add("/p" + std::to_string(i % 2), [&] { done.set(1); });
        CHECK(done.wait(static_cast<std::size_t>(8 * (round + 1))));
        const auto deadline = std::chrono::steady_clock::now() + patience;
        while (pools.threads() > 1 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
        CHECK(pools.threads() == 1);
    }
}

namespace {

// Sets a default stack size that no thread can have, so that no thread can be started during its life.
class NoMoreThreads {
  public:
    NoMoreThreads() {
        pthread_getattr_default_np(&before_);
        pthread_attr_t huge = before_;
        pthread_attr_setstacksize(&huge, std::size_t{1} << 46);
        REQUIRE(pthread_setattr_default_np(&huge) == 0);
        CHECK_THROWS_AS(std::thread([] {}), std::system_error);
    }
    ~NoMoreThreads() { pthread_setattr_default_np(&before_); }

  private:
    pthread_attr_t before_{};
};

sigset_t blocked_signals() {
    sigset_t blocked;
    sigemptyset(&blocked);
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return blocked;
}

}  // namespace

TEST_CASE("where the system has no more threads, those that there are do the work, and signals are not blocked") {
    Seen<int> done;
    net::PlacePools pools(net::ThreadPriority::normal,
                          {.per_place = 4, .total = 8, .idle = std::chrono::milliseconds(1)});
    {
        const NoMoreThreads full;
        for (int i = 0; i < 21; ++i) pools.add("/p" + std::to_string(i % 5), [&] { done.set(1); });
        CHECK(done.wait(21));
        CHECK_THROWS_AS(net::PlacePools(net::ThreadPriority::normal), std::system_error);
        const sigset_t blocked = blocked_signals();
        CHECK(sigismember(&blocked, SIGTERM) == 0);
    }
    for (int i = 0; i < 8; ++i) pools.add("/p" + std::to_string(i), [&] { done.set(1); });
    CHECK(done.wait(29));
}

TEST_CASE("the end waits for what runs and drops what does not") {
    Hanging hang;
    std::atomic<int> ran = 0;
    net::PlacePools pools(net::ThreadPriority::normal, {.per_place = 1, .total = 4, .idle = std::chrono::seconds(10)});
    std::promise<void> begun;
    pools.add("/a", [&] {
        begun.set_value();
        hang.let_go.wait();
        ++ran;
    });
    begun.get_future().wait();
    for (int i = 0; i < 5; ++i) pools.add("/a", [&] { ++ran; });
    std::thread ending([&] { pools.stop(); });
    hang.promise.set_value();
    ending.join();
    CHECK(ran >= 1);
    CHECK(pools.threads() == 0);
    pools.add("/a", [&] { ran = 100; });
    CHECK(ran < 100);
}
