// The waits of live attempts' ranks and the rise of their memory, from agents' heartbeats. The core never sees them.
// The sums of each attempt are kept in the journal's settings, at most half a minute old and once more at its end, so
// that they outlive the head. Workers tell sums since their start: only the time that is lost to slow ranks is added up
// here, window by window.
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
    // `now_ms`: monotonic, as in all of these.
    void take(const Cluster& cluster, const NodeId& node, const protocol::Heartbeat& heartbeat, std::int64_t now_ms);
    RankWaits of(const AttemptId& attempt) const;
    WaitsOf all() const;
    // When a heartbeat had this rank in it last; nullopt: none had.
    std::optional<std::int64_t> seen_ms(const AttemptId& attempt, Rank rank) const;
    // Of its live attempt in the last minutes; nothing but its name where that has not run for some seconds.
    RunFacts facts(const Cluster& cluster, const Run& run) const;

    void end(const AttemptId& attempt);                               // what it has come to stays
    std::vector<std::string> forget(RunId run);                       // returns the settings that are to go
    void recall(const std::map<std::string, std::string>& settings);  // by whole key
    bool due(std::int64_t now_ms) const { return now_ms >= save_at_ms_ || !unsaved_.empty(); }
    void add_changes(std::map<std::string, std::string>& settings, std::int64_t now_ms);
    static constexpr const char* prefix = "waits/";

  private:
    struct Sums {  // milliseconds; as doubles, since an agent may say any number
        double barrier = 0, data = 0, checkpoint = 0;
    };
    struct OfRank {
        Sums sums, window, recent;  // since its start; when the window began; of the last minutes, older ones less
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
        std::int64_t memory_free = 0, resident = 0;  // resident: of all workers there
    };
    static void take(OfRank& rank, const protocol::WorkerHeartbeat& worker, std::int64_t now_ms);
    static void close_window(OfAttempt& of, std::int64_t now_ms);
    static std::optional<RunFacts::InReport> in_report(const Attempt& attempt, const OfAttempt& of);
    void add_rises(const Cluster& cluster, const Attempt& attempt, const OfAttempt& of, RunFacts& facts) const;

    std::map<AttemptId, OfAttempt> live_;
    std::map<AttemptId, RankWaits> known_;  // of attempts that have ended, or as a head before this one had it
    std::map<NodeId, OfNode> nodes_;
    std::set<AttemptId> unsaved_;           // have ended
    std::map<AttemptId, RankWaits> saved_;  // of live ones
    std::int64_t save_at_ms_ = 0;
};

}  // namespace rtrain::head
