// The reports of runs: the newest in memory, all of them in a table of the journal (never in the core), within the
// limit of the run's user. The core gets only two facts: an attempt's first report, and that a metric under `stop` has
// reached its value.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/head/base/user_bytes.hpp"
#include "daemon/protocol/messages.hpp"
#include "scheduler/controller.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

class Reports {
  public:
    explicit Reports(UserBytes& bytes) : bytes_(bytes) {}

    struct Taken {
        std::vector<Event> events;        // events for the core that the report causes, even if its text is not stored
        std::optional<Error> first_lost;  // why the report is not stored; set only once for each run
    };
    Taken take(const Cluster& cluster, const protocol::Reported& report);
    // To be called when the rows of a batch are durable. `grown`: bytes by which the rows made the table larger.
    void saved(const std::vector<state::MetricRow>& rows, const std::map<RunId, std::int64_t>& grown);
    // returns the rows that are to be saved, and removes them from this object
    std::vector<state::MetricRow> to_save();
    std::size_t waiting() const;  // number of rows to save; a long row counts as several
    // Returns the last report of the run: rank 0's metrics and the checkpoint. Metrics above `last_bytes_most` are left
    // out, since the loop makes lists of runs from them. Returns null if the run has no report.
    std::shared_ptr<const state::MetricRow> last(RunId run) const;
    static constexpr std::size_t last_bytes_most = 16 << 10;
    void remember(const state::MetricRow& row);  // sets the row that `last` returns for the run
    // Returns an event for each checkpoint that is lost with the node: an attempt has reported it and not committed it.
    // Only rank 0's node commits an attempt's checkpoints, so the loss of another node loses none. `fate`: what
    // happened to the node, for people.
    std::vector<CheckpointLost> lost_with(const Cluster& cluster, const NodeId& node, const std::string& fate) const;
    void gave_up_checkpoint(AttemptId attempt) { reported_checkpoint_.erase(attempt); }
    void end(RunId run);
    void forget(RunId run);

  private:
    std::optional<Error> keep(state::MetricRow row, std::string shown_json);
    void show(const state::MetricRow& row, std::string shown_json);

    UserBytes& bytes_;
    std::set<RunId> losing_;  // runs with a report that was not stored
    std::map<RunId, std::shared_ptr<const state::MetricRow>> last_;
    std::set<AttemptId> begun_, reached_;
    // key: the attempt; value: directory of the checkpoint in its newest such report
    std::map<AttemptId, std::string> reported_checkpoint_;
    std::vector<state::MetricRow> waiting_;
    std::size_t waiting_bytes_ = 0;
};

// Replaces the metrics of each rank that are not a JSON object by {}. This reads all metrics, so connections' threads
// call it, and not the loop.
void check_metrics(protocol::FromAgent& message);

// Returns the metrics of all ranks as one object, {"0":{...},"1":{...}}, with the member "checkpoint". The metrics must
// have been checked.
std::string joined(const protocol::Reported& report);

}  // namespace rtrain::head
