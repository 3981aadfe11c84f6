// See reports.hpp.
#include "daemon/head/view/reports.hpp"

#include <nlohmann/json.hpp>

#include "daemon/head/events/news.hpp"
#include "daemon/protocol/metric_numbers.hpp"
#include "runtime/worker/frames/stop.hpp"
#include "storage/base/json_text.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;

}  // namespace

std::string joined(const protocol::Reported& report) {
    std::string out = "{";
    for (const auto& [rank, text] : report.metrics_json) {
        const bool whole = text.starts_with('{') && is_json(text);
        out += (out.size() > 1 ? ",\"" : "\"") + std::to_string(rank) + "\":" + (whole ? text : "{}");
    }
    if (!report.checkpoint.empty())
        out += (out.size() > 1 ? "," : "") + std::string("\"checkpoint\":") + json_text(json(report.checkpoint));
    return out + "}";
}

std::vector<Event> Reports::take(const Cluster& cluster, const protocol::Reported& report) {
    const Attempt* attempt = find_attempt(cluster, report.attempt);
    const auto run = cluster.runs.find(RunId{report.attempt.run});
    if (!attempt || run == cluster.runs.end()) return {};
    waiting_.push_back(
        {.attempt = attempt->id, .index = report.index, .wall_ms = report.wall_ms, .ranks_json = joined(report)});
    remember(waiting_.back());

    std::vector<Event> events;
    if (begun_.insert(attempt->id).second) events.push_back(FirstReport{attempt->id});
    const auto rank0 = report.metrics_json.find(0);
    if (!reached_.contains(attempt->id) && rank0 != report.metrics_json.end())
        if (const auto stop = worker::reached_stop(run->second.spec.stop_at, rank0->second)) {
            reached_.insert(attempt->id);
            events.push_back(StopMetricReached{attempt->id, stop->first, stop->second});
        }
    return events;
}

std::vector<state::MetricRow> Reports::to_save() { return std::exchange(waiting_, {}); }

std::shared_ptr<const state::MetricRow> Reports::last(RunId run) const {
    const auto entry = last_.find(run);
    return entry == last_.end() ? nullptr : entry->second;
}

void Reports::end(RunId run) {
    for (std::set<AttemptId>* of_runs : {&begun_, &reached_})
        of_runs->erase(of_runs->lower_bound({run, 0}), of_runs->upper_bound({run, ~0u}));
}

void Reports::forget(RunId run) {
    end(run);
    std::erase_if(waiting_, [&](const state::MetricRow& row) { return row.attempt.run == run; });
    last_.erase(run);
}

}  // namespace rtrain::head
