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
        std::vector<Event> events;        // the report's events for the core, also if its text is not stored
        std::optional<Error> first_lost;  // why it is not stored; once for a run
    };
    Taken take(const Cluster& cluster, const protocol::Reported& report);
    // The rows of a batch are durable. `grown`: the number of bytes by which they made the table larger.
    void saved(const std::vector<state::MetricRow>& rows, const std::map<RunId, std::int64_t>& grown);
    std::vector<state::MetricRow> to_save();  // also removes them
    std::size_t waiting() const;              // number of rows to save; a long row counts as several
    // Returns rank 0's metrics of the last report, and its checkpoint. Metrics above `last_bytes_most` are left out,
    // since lists of runs are made from them on the loop. Null if the run has none.
    std::shared_ptr<const state::MetricRow> last(RunId run) const;
    static constexpr std::size_t last_bytes_most = 16 << 10;
    void remember(const state::MetricRow& row);  // sets the run's last row, as `last` returns it
    // Returns the loss of each checkpoint that an attempt on the node has reported and not committed. Rank 0's node
    // commits an attempt's checkpoints, so the others' loss ends none.
    // `fate`: what happened to the node, for people.
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
    std::map<AttemptId, std::string> reported_checkpoint_;  // directory of an attempt's newest report with a checkpoint
    std::vector<state::MetricRow> waiting_;
    std::size_t waiting_bytes_ = 0;
};

// Makes {} of each rank's metrics that are no JSON object. It reads them whole: connections' threads call it, so that
// the loop need not.
void check_metrics(protocol::FromAgent& message);

// Returns all ranks' metrics as one object, {"0":{...},"1":{...}}, with its "checkpoint". They were checked.
std::string joined(const protocol::Reported& report);

}  // namespace rtrain::head
