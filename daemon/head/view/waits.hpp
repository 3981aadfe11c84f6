// The waits of live attempts' ranks and the growth of their memory, from agents' heartbeats. The core never gets them.
// The sums of each attempt are stored in the journal's settings, at most every half minute and at its end, so that a
// restarted head has them. Workers send sums since their start; only the time lost to slow ranks is summed up here,
// window by window.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/protocol/heartbeat.hpp"
#include "scheduler/goodput/advice.hpp"
#include "scheduler/goodput/memory_rise.hpp"
#include "scheduler/goodput/time_by_cause.hpp"

namespace rtrain::head {

class Waits {
  public:
    // In all functions, `now_ms` is monotonic time.
    void take(const Cluster& cluster, const NodeId& node, const protocol::Heartbeat& heartbeat, std::int64_t now_ms);
    RankWaits of(const AttemptId& attempt) const;
    WaitsOf all() const;
    // Returns the time of the last heartbeat that contained this rank; nullopt if there was none.
    std::optional<std::int64_t> seen_ms(const AttemptId& attempt, Rank rank) const;
    // Returns the facts about the run's live attempt in the last minutes. If the attempt has run for less than some
    // seconds, returns only the run's name.
    RunFacts facts(const Cluster& cluster, const Run& run) const;

    void end(const AttemptId& attempt);          // ends the waits of an attempt; its sums so far are kept
    std::vector<std::string> forget(RunId run);  // removes the run; returns the keys of the settings to erase
    // loads the saved sums; the keys of the settings are whole
    void recall(const std::map<std::string, std::string>& settings);
    bool due(std::int64_t now_ms) const { return now_ms >= save_at_ms_ || !unsaved_.empty(); }
    void add_changes(std::map<std::string, std::string>& settings, std::int64_t now_ms);
    static constexpr const char* prefix = "waits/";

  private:
    struct Sums {  // waited time in milliseconds; doubles, since an agent may send any number
        double barrier = 0, data = 0, checkpoint = 0;
    };
    struct OfRank {
        // `sums`: since the rank's start. `window`: at the begin of the window. `recent`: of the last minutes, with
        // less weight for older ones.
        Sums sums, window, recent;
        std::uint64_t waits = 0, window_waits = 0;
        std::int64_t seen_ms = 0, interval_ms = 0, report_wait_ms = -1;
        MemoryHistory memory;
    };
    struct OfAttempt {
        std::vector<OfRank> ranks;
        std::int64_t window_ms = 0;
        double recent_ms = 0, straggler_ms = 0;
    };
    struct OfNode {
        // `memory_free`: free bytes of the node; `resident`: bytes of all this run's workers there
        std::int64_t memory_free = 0, resident = 0;
    };
    static void take(OfRank& rank, const protocol::WorkerHeartbeat& worker, std::int64_t now_ms);
    static void close_window(OfAttempt& of, std::int64_t now_ms);
    static std::optional<RunFacts::InReport> in_report(const Attempt& attempt, const OfAttempt& of);
    void add_rises(const Cluster& cluster, const Attempt& attempt, const OfAttempt& of, RunFacts& facts) const;

    std::map<AttemptId, OfAttempt> live_;
    std::map<AttemptId, RankWaits> known_;  // sums of ended attempts, and those that an earlier head has stored
    std::map<NodeId, OfNode> nodes_;
    std::set<AttemptId> unsaved_;           // ended attempts whose sums are not saved yet
    std::map<AttemptId, RankWaits> saved_;  // live attempts; value: the sums that were saved last
    std::int64_t save_at_ms_ = 0;
};

}  // namespace rtrain::head
