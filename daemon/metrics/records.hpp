// A copy of the records that a scrape of the metrics shows. The head's loop copies a part at a time. The text is made
// of the copy on another thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/controller.hpp"
#include "scheduler/goodput/time_by_cause.hpp"

namespace rtrain::metrics {

struct ShownGpu {  // a GPU that a worker uses
    NodeId node;
    std::uint32_t device = 0;
    Rank rank;
};
struct ShownCheckpoint {
    std::int64_t bytes = 0, committed_wall_ms = 0;
};
struct ShownRun {
    std::string name, user, queue;
    RunState state = RunState::queued;
    std::uint32_t attempts = 0;
    std::map<std::string, int> failures;  // number of failed attempts, by reason
    TimeByCause time;                     // since the run's submission
    std::optional<ShownCheckpoint> newest;
    std::vector<ShownGpu> gpus;  // the GPUs of attempts that have not ended
};
struct ShownNode {
    NodeState state = NodeState::ready;
    std::uint32_t gpus = 0;
};
struct Records {
    std::string cluster_id;
    std::map<NodeId, ShownNode> nodes;
    std::map<RunId, ShownRun> runs;
    RunId last_seen{};  // the newest run that was read, shown or not; later runs are left out of this scrape
    std::map<RunState, std::size_t> not_shown;  // live runs beyond the bounds below, by state
    std::map<std::string, std::size_t> queue_lengths;
    struct Budget {
        std::string queue, user;     // no user: the budget of the whole queue
        double used = 0, limit = 0;  // GPU hours
    };
    std::vector<Budget> budgets;
    double gpus_total = 0, gpus_free = 0;
};

// Bounds of the live runs that have samples of their own: all; those that were never placed; those of one user. Runs
// beyond the bounds are only counted by state.
inline constexpr std::size_t runs_shown_most = 5'000, waiting_shown_most = 2'500, waiting_shown_of_user = 500;

// Copies one run at a time. The cluster may change between two steps, so each run is shown as it was at its own step.
// Includes the live runs, up to the bounds above, and the last 500 of the runs that ended within 15 minutes.
class Sampling {
  public:
    using Taken = std::function<void(RunId)>;
    Sampling(const Cluster& cluster, Time now, std::int64_t wall_ms, Taken taken = {}, WaitsOf waits_of = {});
    bool step();       // copies one run; false if all runs are copied
    Records finish();  // called after the last step

  private:
    void choose_ended();
    void add_budgets();
    bool may_show(const Run& live);
    void take(const Run& run);

    const Cluster& cluster_;
    const Time now_;
    const std::int64_t wall_ms_;
    const Taken taken_;
    const WaitsOf waits_of_;
    Records records_;
    std::vector<std::pair<std::int64_t, RunId>> ended_;  // time of the end, run
    std::size_t live_shown_ = 0, waiting_shown_ = 0;
    std::map<std::string, std::size_t> waiting_shown_of_;  // key: the user
    bool all_seen_ = false;
};

}  // namespace rtrain::metrics
