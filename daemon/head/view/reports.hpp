// What runs report: the newest in memory, all of it in the journal's own table (never in the core), as far as the run's
// user may keep it. Tells the core only
// two things: an attempt's first report, and that a metric named under `stop` has reached its value.
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
        std::vector<Event> events;        // that the report means for the core, also where its text is not kept
        std::optional<Error> first_lost;  // why it is not kept; once for a run
    };
    Taken take(const Cluster& cluster, const protocol::Reported& report);
    // The rows of a batch are on disk. `grown`: the bytes by which they made the table larger.
    void saved(const std::vector<state::MetricRow>& rows, const std::map<RunId, std::int64_t>& grown);
    std::vector<state::MetricRow> to_save();  // and forgets them
    std::size_t waiting() const;              // rows to be saved; a long one counts as several
    // Rank 0's metrics of the last report, and its checkpoint. Metrics above `last_bytes_most` are left out: lists of
    // runs are made of them on the loop. Null: the run has none.
    std::shared_ptr<const state::MetricRow> last(RunId run) const;
    static constexpr std::size_t last_bytes_most = 16 << 10;
    void remember(const state::MetricRow& row);  // as the run's last one, as far as `last` has it
    void end(RunId run);
    void forget(RunId run);

  private:
    std::optional<Error> keep(state::MetricRow row, std::string shown_json);
    void show(const state::MetricRow& row, std::string shown_json);

    UserBytes& bytes_;
    std::set<RunId> losing_;  // of which a report was not kept
    std::map<RunId, std::shared_ptr<const state::MetricRow>> last_;
    std::set<AttemptId> begun_, reached_;
    std::vector<state::MetricRow> waiting_;
    std::size_t waiting_bytes_ = 0;
};

// Makes {} of each rank's metrics that are no JSON object. It reads them whole: connections' threads call it, so that
// the loop need not.
void check_metrics(protocol::FromAgent& message);

// All ranks' metrics as one object, {"0":{...},"1":{...}}, and its "checkpoint". They were checked.
std::string joined(const protocol::Reported& report);

}  // namespace rtrain::head
