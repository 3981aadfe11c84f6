// Handles Ctrl-C while a verb follows something. One thread waits for SIGINT, so that another thread can end a blocking
// call.
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "cmd/line/invocation.hpp"

namespace rtrain::cmd {
namespace {

struct Watcher {
    std::atomic<bool> seen{false}, ending{false};
    std::mutex mutex;
    std::condition_variable changed;
    void (*also)(void*) = nullptr;
    void* argument = nullptr;
    std::function<bool(int)> handler;  // set before the watcher's thread starts
    std::thread thread;
};

Watcher& watcher() {
    // never destroyed, since the watcher's thread may run until the process ends
    static Watcher* instance = new Watcher;
    return *instance;
}

// Returns the signals that the watcher's thread waits for.
sigset_t watched_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    if (!watcher().handler) return set;
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    return set;
}

void wait_for_signal() {
    Watcher& w = watcher();
    const sigset_t set = watched_signals();
    for (;;) {
        int signal = 0;
        sigwait(&set, &signal);
        if (w.ending) return;
        if (w.handler && w.handler(signal)) continue;
        std::lock_guard lock(w.mutex);
        w.seen = true;
        w.changed.notify_all();
        if (w.also != nullptr) w.also(w.argument);
    }
}

}  // namespace

bool interrupted() { return watcher().seen; }

void watch_interrupts(void (*also)(void*), void* argument) {
    Watcher& w = watcher();
    std::lock_guard lock(w.mutex);
    w.also = also;
    w.argument = argument;
    if (w.thread.joinable()) return;
    const sigset_t set = watched_signals();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);  // the signals are blocked, and threads that start later inherit that
    w.thread = std::thread(wait_for_signal);
}

void handle_signals(std::function<bool(int)> handler) {
    RTRAIN_CHECK(!watcher().thread.joinable(), "signals are watched already");
    watcher().handler = std::move(handler);
    watch_interrupts(nullptr, nullptr);
}

void unwatch_interrupts() {
    Watcher& w = watcher();
    if (!w.thread.joinable()) return;
    w.ending = true;
    pthread_kill(w.thread.native_handle(), SIGINT);
    w.thread.join();
    w.ending = false;
    w.also = nullptr;
    const sigset_t set = watched_signals();
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

bool wait_or_interrupt(std::int64_t ms) {
    Watcher& w = watcher();
    std::unique_lock lock(w.mutex);
    return w.changed.wait_for(lock, std::chrono::milliseconds(ms), [&] { return w.seen.load(); });
}

}  // namespace rtrain::cmd
