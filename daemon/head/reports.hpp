// What runs report: the newest in memory, a thinned series in the journal's own table (never in the core). Tells the
// core only two things: an attempt's first report, and that a metric named under `stop` has reached its value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
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
    std::vector<Event> take(const Cluster& cluster, const protocol::Reported& said);
    std::vector<state::MetricRow> to_save();  // and forgets them
    std::optional<state::MetricRow> last(RunId run) const;
    void remember(const state::MetricRow& row) { last_[row.attempt.run] = row; }
    void end(RunId run);  // its last report is kept, whatever the thinning says
    void forget(RunId run);

  private:
    std::map<RunId, state::MetricRow> last_;
    std::map<RunId, bool> last_saved_;
    std::set<AttemptId> begun_, reached_;
    std::vector<state::MetricRow> waiting_;
};

// Which reports of an attempt are kept: all of the first thousand, then every 10th up to ten thousand, and so on.
bool kept(std::uint64_t index);

}  // namespace rtrain::head
