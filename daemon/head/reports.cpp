// See reports.hpp.
#include "daemon/head/reports.hpp"

#include <nlohmann/json.hpp>

#include "daemon/head/words.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;

std::optional<StopMetricReached> reached(const Run& run, AttemptId attempt, const std::string& metrics_json) {
    if (run.spec.stop_at.empty()) return std::nullopt;
    const json metrics = json::parse(metrics_json, nullptr, false);
    if (!metrics.is_object()) return std::nullopt;
    for (const auto& [key, value] : run.spec.stop_at) {
        const auto found = metrics.find(key);
        if (found != metrics.end() && found->is_number() && found->get<double>() >= value)
            return StopMetricReached{attempt, key, found->get<double>()};
    }
    return std::nullopt;
}

}  // namespace

bool kept(std::uint64_t index) {
    std::uint64_t step = 1;
    while (index / step > 1'000) step *= 10;
    return index % step == 0;
}

std::vector<Event> Reports::take(const Cluster& cluster, const protocol::Reported& said) {
    const Attempt* attempt = find_attempt(cluster, said.attempt);
    const auto run = cluster.runs.find(RunId{said.attempt.run});
    if (!attempt || run == cluster.runs.end()) return {};
    const auto rank0 = said.metrics_json.begin();
    const state::MetricRow row{.attempt = attempt->id,
                               .index = said.index,
                               .wall_ms = said.wall_ms,
                               .metrics_json = rank0 == said.metrics_json.end() ? "{}" : rank0->second};
    last_[row.attempt.run] = row;
    last_saved_[row.attempt.run] = kept(said.index);
    if (kept(said.index)) waiting_.push_back(row);

    std::vector<Event> events;
    if (begun_.insert(attempt->id).second) events.push_back(FirstReport{attempt->id});
    if (!reached_.contains(attempt->id))
        if (auto stop = reached(run->second, attempt->id, row.metrics_json)) {
            reached_.insert(attempt->id);
            events.push_back(*stop);
        }
    return events;
}

std::vector<state::MetricRow> Reports::to_save() { return std::exchange(waiting_, {}); }

std::optional<state::MetricRow> Reports::last(RunId run) const {
    const auto found = last_.find(run);
    if (found == last_.end()) return std::nullopt;
    return found->second;
}

void Reports::end(RunId run) {
    const auto found = last_saved_.find(run);
    if (found == last_saved_.end()) return;
    if (!found->second) waiting_.push_back(last_.at(run));
    last_saved_.erase(found);
    std::erase_if(begun_, [&](const AttemptId& id) { return id.run == run; });
    std::erase_if(reached_, [&](const AttemptId& id) { return id.run == run; });
}

void Reports::forget(RunId run) {
    end(run);
    std::erase_if(waiting_, [&](const state::MetricRow& row) { return row.attempt.run == run; });
    last_.erase(run);
}

}  // namespace rtrain::head
