// Threads beside the loop: their priority, and that signals are delivered to the loop.
#include "daemon/net/loop/side_thread.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "tests/unit/catch.hpp"

using namespace rtrain;

namespace {

int nice_of_this_thread() { return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())); }

}  // namespace

TEST_CASE("a thread behind the loop gives way, one that may start processes does not") {
    const int ours = nice_of_this_thread();
    int behind = -100, beside = -100;
    net::side_thread(net::ThreadPriority::behind_loop, [&] { behind = nice_of_this_thread(); }).join();
    net::side_thread(net::ThreadPriority::normal, [&] { beside = nice_of_this_thread(); }).join();
    CHECK(behind == std::max(ours, 10));
    CHECK(beside == ours);
    CHECK(nice_of_this_thread() == ours);
}

TEST_CASE("a thread beside the loop takes no signal, and the starter's mask is as before") {
    sigset_t before, after, inside;
    pthread_sigmask(SIG_SETMASK, nullptr, &before);
    net::side_thread(net::ThreadPriority::normal, [&] { pthread_sigmask(SIG_SETMASK, nullptr, &inside); }).join();
    pthread_sigmask(SIG_SETMASK, nullptr, &after);
    CHECK(sigismember(&inside, SIGTERM) == 1);
    CHECK(sigismember(&inside, SIGINT) == 1);
    CHECK(sigismember(&after, SIGTERM) == sigismember(&before, SIGTERM));
}
