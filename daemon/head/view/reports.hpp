// What runs report: the newest in memory, all of it in the journal's own table (never in the core). Tells the core only
// two things: an attempt's first report, and that a metric named under `stop` has reached its value.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/protocol/messages.hpp"
#include "scheduler/controller.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

class Reports {
  public:
    // Events that the report means for the core.
    std::vector<Event> take(const Cluster& cluster, const protocol::Reported& report);
    std::vector<state::MetricRow> to_save();                 // and forgets them
    std::size_t waiting() const { return waiting_.size(); }  // to be saved
    // Rank 0's metrics of the last report, and its checkpoint. Metrics above `last_bytes_most` are left out: lists of
    // runs are made of them on the loop. Null: the run has none.
    std::shared_ptr<const state::MetricRow> last(RunId run) const;
    static constexpr std::size_t last_bytes_most = 16 << 10;
    void remember(const state::MetricRow& row);  // as the run's last one, as far as `last` has it
    void end(RunId run);
    void forget(RunId run);

  private:
    void keep(const state::MetricRow& row, std::string shown_json);
    std::map<RunId, std::shared_ptr<const state::MetricRow>> last_;
    std::set<AttemptId> begun_, reached_;
    std::vector<state::MetricRow> waiting_;
};

// All ranks' metrics as one object, {"0":{...},"1":{...}}, and its "checkpoint"; what is no JSON object is {}.
std::string joined(const protocol::Reported& report);

}  // namespace rtrain::head
