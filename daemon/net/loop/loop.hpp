// One thread, one queue: the event loop of a head or an agent. Everything posted runs on the thread that called run();
// only post() may be called from other threads. No Asio in this header, so that its users compile in seconds.
#pragma once

#include <csignal>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "scheduler/model/result.hpp"

namespace rtrain::net {

// What our code threw where one piece of work may fail and the daemon goes on: a full disk's odd answer, a file that is
// not what it should be, or a bug. `doing` is the work.
Error thrown(const std::exception& wrong, const std::string& doing);

class Loop {
  public:
    using Task = std::function<void()>;
    using TimerId = std::uint64_t;

    Loop();
    ~Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    void run();            // until stop()
    void stop();           // from any thread
    void post(Task task);  // from any thread
    // Queues a task of the loop's own thread: it runs as soon as the task that runs now has returned, before all that
    // was posted.
    void next(Task task);
    TimerId after(std::int64_t delay_ms, Task task);  // steady clock
    void cancel(TimerId timer);                       // unknown or fired: nothing happens
    // Calls `ready` each time the descriptor is readable (a pidfd: once, at the process's end) until unwatch.
    void watch_readable(int descriptor, Task ready);
    void unwatch(int descriptor);           // the descriptor stays the caller's
    void on_signal(int signal, Task task);  // SIGTERM, SIGINT, SIGHUP
    // Runs `work` on a small pool of threads, then `done` on the loop: file system and blocking network calls. What it
    // throws is reported on standard error, and `done` still comes.
    void offload(Task work, Task done);
    // The same on threads for one place alone, such as a storage path: where it hangs, no other place's work waits.
    void offload_at(const std::string& place, Task work, Task done);
    // The same for work that answers: `then` gets the answer, which is `failed(Error)` for work that threw.
    template <class Work, class Failed, class Then>
    void offload(Work work, Failed failed, Then then) {
        offload_at("", std::move(work), std::move(failed), std::move(then));
    }
    template <class Work, class Failed, class Then>
    void offload_at(const std::string& place, Work work, Failed failed, Then then) {
        auto answer = std::make_shared<std::optional<decltype(work())>>();
        offload_at(
            place,
            [answer, work = std::move(work), failed = std::move(failed)]() mutable {
                try {
                    answer->emplace(work());
                } catch (const std::exception& wrong) { answer->emplace(failed(thrown(wrong, "background work"))); }
            },
            [answer, then = std::move(then)]() mutable { then(std::move(**answer)); });
    }

    // The longest task of the last one to two minutes, with all that followed it before the next could begin.
    // Counted on the wall clock and as the thread's CPU time, each by itself.
    struct LongestTask {
        std::int64_t wall_us = 0, cpu_us = 0;
    };
    LongestTask longest_task() const;  // of the loop's own thread

    void* io_context();  // boost::asio::io_context*, for daemon/net alone

  private:
    struct Body;
    std::unique_ptr<Body> body_;
};

}  // namespace rtrain::net
