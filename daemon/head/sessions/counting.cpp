// See counting.hpp.
#include "daemon/head/sessions/counting.hpp"

#include <string>

namespace rtrain::head {
namespace {

// Returns true for the reasons of notices in daemon/agent/machine/coordinator.cpp that are about a lost checkpoint.
bool means_lost_checkpoint(const std::string& reason) {
    return reason.starts_with("storage_") || reason == "too_many_files" || reason == "metrics_too_large" ||
           reason == "ranks_ended" || reason == "checkpoint_given_up" || reason == "checkpoint_replaced";
}

}  // namespace

// Counts queue waits, checkpoints, reports and warnings as they happen.
void count_placed(metrics::Metrics& metrics, const Cluster& cluster, const Attempt& attempt) {
    const auto run = cluster.runs.find(attempt.id.run);
    if (attempt.id.number != 1 || run == cluster.runs.end()) return;
    metrics.left_queue(run->second.spec.queue,
                       static_cast<double>((attempt.placed_at - run->second.submitted).ms) / 1e3);
}

void count_news(metrics::Metrics& metrics, const View& view, const protocol::News& news) {
    // Only runs with a record are counted, since labels of other runs would never be removed.
    const auto known = [&](const protocol::AttemptRef& attempt) {
        return view.cluster.runs.contains(RunId{attempt.run});
    };
    if (const auto* committed = std::get_if<protocol::Committed>(&news.what); committed && known(committed->attempt))
        metrics.checkpoint_saved({.run = RunId{committed->attempt.run},
                                  .save_seconds = static_cast<double>(committed->upload_ms) / 1e3,
                                  .blocked_seconds = static_cast<double>(committed->blocked_us) / 1e6});
    if (const auto* notice = std::get_if<protocol::Notice>(&news.what); notice && known(notice->attempt)) {
        if (means_lost_checkpoint(notice->reason))
            metrics.checkpoint_failed(RunId{notice->attempt.run}, notice->reason);
        if (!notice->reason.empty() && notice->reason != protocol::reason_of_starts)
            metrics.warned(RunId{notice->attempt.run}, notice->reason);
    }
    if (const auto* report = std::get_if<protocol::Reported>(&news.what)) {
        const auto last = view.reports.last(RunId{report->attempt.run});
        if (last && last->index + 1 == report->index && report->wall_ms >= last->wall_ms)
            metrics.reported(last->attempt.run, static_cast<double>(report->wall_ms - last->wall_ms) / 1e3);
    }
}

}  // namespace rtrain::head
