// What a scrape shows of the cluster's records. It is taken from them piece by piece on the head's loop; the text is
// made of it beside the loop.
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

struct ShownGpu {  // that a worker has
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
    std::map<std::string, int> failures;  // of its attempts, by reason
    TimeByCause time;                     // since its submission
    std::optional<ShownCheckpoint> newest;
    std::vector<ShownGpu> gpus;  // of attempts that live
};
struct ShownNode {
    NodeState state = NodeState::ready;
    std::uint32_t gpus = 0;
};
struct Records {
    std::string cluster_id;
    std::map<NodeId, ShownNode> nodes;
    std::map<RunId, ShownRun> runs;
    RunId last_seen{};  // of all runs, also those that are not shown; later ones came too late for this scrape
    std::map<RunState, std::size_t> not_shown;  // live runs beyond the bounds of Sampling, by their state
    std::map<std::string, std::size_t> queue_lengths;
    double gpus_total = 0, gpus_free = 0;
};

// Live runs that have samples of their own; and of them those that were never placed, of all users and of one. The
// others are counted by their state, as all are.
inline constexpr std::size_t runs_shown_most = 5'000, waiting_shown_most = 2'500, waiting_shown_of_user = 500;

// Takes one run at a time. The cluster may change between two steps: each run is shown as it was at its own. Shown are
// the runs that live, up to the bounds above, and those that ended within 15 minutes, but of these no more than the
// last 500.
class Sampling {
  public:
    using Taken = std::function<void(RunId)>;
    Sampling(const Cluster& cluster, Time now, std::int64_t wall_ms, Taken taken = {}, WaitsOf waits_of = {});
    bool step();       // false: all have been taken
    Records finish();  // then

  private:
    void choose_ended();
    bool may_show(const Run& live);
    void take(const Run& run);

    const Cluster& cluster_;
    const Time now_;
    const std::int64_t wall_ms_;
    const Taken taken_;
    const WaitsOf waits_of_;
    Records records_;
    std::vector<std::pair<std::int64_t, RunId>> ended_;  // when, and who
    std::size_t live_shown_ = 0, waiting_shown_ = 0;
    std::map<std::string, std::size_t> waiting_shown_of_;  // by user
    bool all_seen_ = false;
};

}  // namespace rtrain::metrics
