// The lock of a session, its heartbeat thread, and the waits of its calls. The locking rules of this library are these:
//
//  1. `state_` protects the AgentClient. Code outside of this class reaches the client through a `Locked`, and only
//     AgentLoop makes one. Locked::released() is the only place where a holder gives the lock back for a while.
//  2. While a caller is in wait_until(), only that caller reads and dials. Otherwise the heartbeat thread does. So an
//     answer wakes exactly the thread that waits for it, and nobody else changes the connection or the shared report
//     memory while the caller waits on them without the lock.
//  3. The lock of a call (`Session::calls_`) is taken before `state_`, never after it.
//  4. Used without `state_`: the agent's request, which is atomic. And in a forked child, where a thread that does not
//     exist may hold the lock: the context and the first checkpoint, which are written once, and the sockets, to close
//     the child's copies.
#pragma once

#include <cassert>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "runtime/worker/agent_client.hpp"
#include "runtime/worker/rank/wait_times.hpp"

namespace rtrain::worker {

// Access to the client while the lock is held.
class Locked {
  public:
    AgentClient* operator->() const {
        assert(lock_.owns_lock());
        return client_;
    }
    explicit operator bool() const { return lock_.owns_lock(); }  // false only after AgentLoop::try_lock
    // Runs `work` without the lock, also if it throws. `work` may use nothing of the client.
    template <class Work>
    auto released(Work work) {
        struct Relock {
            std::unique_lock<std::mutex>& lock;
            ~Relock() { lock.lock(); }
        };
        lock_.unlock();
        const Relock relock{lock_};
        return work();
    }

  private:
    friend class AgentLoop;
    Locked(std::unique_lock<std::mutex> lock, AgentClient& client) : lock_(std::move(lock)), client_(&client) {}
    std::unique_lock<std::mutex> lock_;
    AgentClient* client_;
};

class AgentLoop {  // Each int is an RTW_ code.
  public:
    using Deadline = std::optional<Clock::time_point>;
    AgentLoop(Settings settings, std::int64_t process, const WaitTimes& waits)
        : client_(std::move(settings), process), waits_(waits) {}

    Locked lock() { return {std::unique_lock(state_), client_}; }
    Locked try_lock() { return {std::unique_lock(state_, std::try_to_lock), client_}; }

    // ---- the heartbeat thread
    void start_heartbeat();
    bool has_heartbeat() const { return heartbeat_.joinable(); }
    void stop();  // gives up the rank's place and ends the thread

    // ---- waits of a call; each releases the lock while nothing has arrived
    int connect(Locked& client, const char* doing, Place place);  // RTW_OK: the agent has welcomed this process
    // A process that has only read so far requests the place, which may have become free.
    int take_place(Locked& client, const char* doing);
    // Reads until `done` returns true. Connects again after a restart of the agent.
    int wait_until(Locked& client, const char* doing, Deadline deadline, const std::function<bool()>& done);
    bool has_waiting_caller(const Locked&) const { return caller_waits_; }
    void read_unless_awaited(Locked& client);  // reads the socket if no caller in wait_until() does
    void pause(Locked& client, std::chrono::milliseconds limit);

    // ---- failures
    int refuse_other_process(const Locked& client) const;
    int gone(const Locked& client, const char* doing) const;  // stores the text that the agent does not answer

    // ---- without the lock (rule 4)
    int wanted() { return client_.requests().wanted(); }
    AgentClient& of_forked_child() { return client_; }

  private:
    int wait_for_agent(Locked& client, const char* doing, Place place, Deadline deadline);
    int try_agent(Locked& client, const char* doing, Place place, Deadline deadline);
    int wait_while_detached(Locked& client, const char* doing, Deadline deadline);
    void wait_for_news(Locked& client, std::chrono::milliseconds limit);
    void run_heartbeat();
    void send_heartbeat(Locked& client);

    std::mutex state_;
    AgentClient client_;      // protected by state_, as all below except heartbeat_
    const WaitTimes& waits_;  // owned by the session
    bool caller_waits_ = false, closing_ = false;
    Clock::time_point waits_since_{};  // since when the present call waits for the agent
    std::condition_variable close_now_;
    std::thread heartbeat_;
};

}  // namespace rtrain::worker
