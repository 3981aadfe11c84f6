// See counting.hpp.
#include "daemon/head/sessions/counting.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace rtrain::head {
namespace {

bool failed_by_itself(const ExitCause& cause) { return !cause.success() && !cause.stopped_by_us; }

// Words of the agent's coordinator (daemon/agent/machine/coordinator.cpp): one notice for each kind of trouble of a
// checkpoint.
bool tells_of_a_lost_checkpoint(const std::string& reason) {
    return reason.starts_with("storage_") || reason == "too_many_files" || reason == "metrics_too_large" ||
           reason == "ranks_ended" || reason == "checkpoint_given_up";
}

}  // namespace

void count_silence(metrics::Metrics& metrics, const Cluster& cluster, const NodeId& node, double seconds) {
    ClusterIndex made;
    std::set<RunId> runs;
    for (const AttemptId& id : in_step(cluster, made).on_node(node)) runs.insert(id.run);
    for (const RunId run : runs) metrics.lost_time(run, metrics::LostPhase::detect, seconds);
}

// What is counted as it happens: queue waits, checkpoints, reports, warnings.
void count_placed(metrics::Metrics& metrics, const Cluster& cluster, const Attempt& attempt) {
    const auto run = cluster.runs.find(attempt.id.run);
    if (attempt.id.number != 1 || run == cluster.runs.end()) return;
    metrics.left_queue(run->second.spec.queue,
                       static_cast<double>((attempt.placed_at - run->second.submitted).ms) / 1e3);
}

void count_news(metrics::Metrics& metrics, const View& view, const protocol::News& news) {
    // Of others nothing is counted: what a scrape has not seen yet would stay.
    const auto known = [&](const protocol::AttemptRef& attempt) {
        return view.cluster.runs.contains(RunId{attempt.run});
    };
    if (const auto* said = std::get_if<protocol::Committed>(&news.what); said && known(said->attempt))
        metrics.checkpoint_saved({.run = RunId{said->attempt.run},
                                  .save_seconds = static_cast<double>(said->upload_ms) / 1e3,
                                  .blocked_seconds = static_cast<double>(said->blocked_us) / 1e6});
    if (const auto* said = std::get_if<protocol::Exited>(&news.what);
        said && known(said->attempt) && failed_by_itself(said->cause))
        metrics.lost_time(RunId{said->attempt.run}, metrics::LostPhase::detect,
                          std::max(0.0, static_cast<double>(wall_ms() - said->exit_wall_us / 1'000) / 1e3));
    if (const auto* said = std::get_if<protocol::Started>(&news.what);
        said && known(said->attempt) && said->rank == 0 && said->restore_ms > 0 && said->attempt.number > 1)
        metrics.lost_time(RunId{said->attempt.run}, metrics::LostPhase::restore,
                          static_cast<double>(said->restore_ms) / 1e3);
    if (const auto* said = std::get_if<protocol::Notice>(&news.what); said && known(said->attempt)) {
        if (tells_of_a_lost_checkpoint(said->reason)) metrics.checkpoint_failed(RunId{said->attempt.run}, said->reason);
        if (!said->reason.empty()) metrics.warned(RunId{said->attempt.run}, said->reason);
    }
    if (const auto* said = std::get_if<protocol::Reported>(&news.what)) {
        const auto last = view.reports.last(RunId{said->attempt.run});
        if (last && last->index + 1 == said->index && said->wall_ms >= last->wall_ms)
            metrics.reported(last->attempt.run, static_cast<double>(said->wall_ms - last->wall_ms) / 1e3);
    }
}

}  // namespace rtrain::head
