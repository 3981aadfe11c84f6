// The event loop of a head or an agent: one thread and one queue. Everything posted runs on the thread that called
// run(). Other threads may call post() only. This header does not include Asio, so that its users compile in seconds.
#pragma once

#include <csignal>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/result.hpp"

namespace rtrain::net {

// Reports an exception of our code at a place where one piece of work may fail and the daemon continues: a full disk's
// odd answer, an unexpected file, or a bug. `doing` names the work.
Error thrown(const std::exception& wrong, const std::string& doing);

class Loop {
  public:
    using Task = std::function<void()>;
    using TimerId = std::uint64_t;

    Loop();
    ~Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    void run();            // returns after stop()
    void stop();           // callable from any thread
    void post(Task task);  // callable from any thread
    // Queues a task of the loop's own thread. It runs right after the present task, before all posted tasks.
    void next(Task task);
    TimerId after(std::int64_t delay_ms, Task task);  // measured by the steady clock
    void cancel(TimerId timer);                       // does nothing for an unknown timer or one that has fired
    // Calls `ready` each time the descriptor is readable (for a pidfd once, at the process's end) until unwatch.
    void watch_readable(int descriptor, Task ready);
    void unwatch(int descriptor);           // the descriptor stays the caller's
    void on_signal(int signal, Task task);  // SIGTERM, SIGINT, SIGHUP
    // Runs `work` on a small pool of threads, then `done` on the loop. For file system calls and blocking network
    // calls. An exception of `work` is reported on standard error, and `done` still runs.
    void offload(Task work, Task done);
    // Does the same on threads for one place only, such as a storage path. If that place hangs, work of other places
    // does not wait.
    void offload_at(const std::string& place, Task work, Task done);
    // Does the same for work with a result. `then` gets the result, or `failed(Error)` if the work threw.
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

    // The longest task of the last one to two minutes, including all tasks that it queued before the next posted one.
    // Measured separately on the wall clock and as the thread's CPU time.
    struct LongestTask {
        std::int64_t wall_us = 0, cpu_us = 0;
    };
    LongestTask longest_task() const;  // on the loop's own thread only

    void* io_context();  // a boost::asio::io_context*, for daemon/net only

  private:
    struct Body;
    std::unique_ptr<Body> body_;
};

}  // namespace rtrain::net
