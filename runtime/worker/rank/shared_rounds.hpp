// This rank's part in the shared report memory of its agent (frames/report_memory.hpp), from the agent's offer to the
// welcome of the next agent. If all ranks of the attempt are on this node, they use the memory without an agent too.
// Invariant: is_detached() only if the memory is in use and all ranks of the attempt are on this node.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/worker/frames/frames.hpp"
#include "runtime/worker/frames/report_memory.hpp"
#include "runtime/worker/rank/clock.hpp"

namespace rtrain::worker {

class SharedRounds {
  public:
    // Returns false if the memory cannot be shared. All messages then use the socket.
    bool open(int descriptor, const ReportMemoryOffer& offer, Clock::time_point now);
    void leave();  // another agent has welcomed this rank
    bool in_use() const { return memory_.has_value(); }
    bool alone() const { return offer_.alone; }  // true: all ranks of the attempt are on this node

    // ---- the agent's news; each function requires in_use()
    std::uint64_t heard() const { return memory_->heard(); }  // the agent has acknowledged the reports up to this one
    void see_wakeups() { wakeups_seen_ = memory_->wakeups(); }
    bool take_messages();     // true: messages were sent to the socket since the last call
    bool take_detachments();  // true: a rank has detached itself since the last call
    // Returns true if the agent has shown no activity for a while although its connection stands: it is stopped, or
    // hangs. Counts only while this rank waits for the agent and calls this function often.
    bool agent_is_silent(Clock::time_point now);
    // A wait for the next wake-up. The lock need not be held: nobody leaves the memory while a caller waits here.
    struct Wait {
        const ReportMemory* memory = nullptr;
        std::uint32_t seen = 0;
        bool until_woken(std::chrono::milliseconds limit) const { return memory->wait(seen, limit); }
    };
    Wait wait() const { return {.memory = &*memory_, .seen = wakeups_seen_}; }

    // ---- one report; each function requires in_use()
    // Writes what other ranks must read about this rank's report. Called before arrive().
    void announce(const Report& report, std::uint64_t stop_after, bool only_by_agent);
    bool post(std::uint64_t index, std::string_view frame, std::int64_t interval_ms);
    bool arrive(std::uint64_t index, bool posted);  // true: the agent must be notified
    void stop_after(std::uint64_t report);          // 0: no report has reached the job's `stop`
    bool is_released(std::uint64_t index) const { return memory_->released(index); }

    // ---- without an agent
    void detach();  // the connection has ended
    bool is_detached() const { return is_detached_; }
    bool pass_detached(std::uint64_t index) { return is_detached_ && memory_->pass_detached(index); }
    bool all_arrived_detached(std::uint64_t index) const { return memory_->all_detached_at(index); }
    bool has_files_of_all(std::uint64_t index) const { return memory_->files_whole(index); }
    bool stores(const Report& report) const;  // true: the report has files, and an agent is to store them

  private:
    Upload mode_of(const Report& report) const;

    std::optional<ReportMemory> memory_;
    ReportMemoryOffer offer_;  // describes memory_
    bool is_detached_ = false;
    std::uint32_t messages_read_ = 0, wakeups_seen_ = 0, detachments_seen_ = 0, beats_seen_ = 0;
    Clock::time_point beat_at_{};    // when the agent's count of beats last changed
    Clock::time_point looked_at_{};  // when it was last read
};

}  // namespace rtrain::worker
