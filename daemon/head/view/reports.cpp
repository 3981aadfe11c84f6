// See reports.hpp.
#include "daemon/head/view/reports.hpp"

#include <nlohmann/json.hpp>

#include "base/json_members.hpp"
#include "base/json_text.hpp"
#include "daemon/head/events/news.hpp"
#include "daemon/protocol/metric_numbers.hpp"
#include "runtime/worker/frames/stop.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;

constexpr const char* left_out = R"({"left_out":"this report has more than 16 KiB of metrics: rtrain metrics RUN"})";

std::string shown_of(std::string_view metrics) {
    return std::string(metrics.size() > Reports::last_bytes_most ? left_out : metrics);
}

// Returns the bytes that a row counts before it is written.
KeptBytes bytes_of(const state::MetricRow& row) {
    const auto size = static_cast<std::int64_t>(row.ranks_json.size());
    return {.memory = size, .database = size, .files = 0};
}

}  // namespace

void check_metrics(protocol::FromAgent& message) {
    const auto check = [](protocol::News& news) {
        auto* report = std::get_if<protocol::Reported>(&news.what);
        if (!report) return;
        for (auto& [rank, text] : report->metrics_json)
            if (!text.starts_with('{') || !is_json(text)) text = "{}";
    };
    if (auto* news = std::get_if<protocol::News>(&message)) check(*news);
    if (auto* batch = std::get_if<protocol::NewsBatch>(&message))
        for (protocol::News& news : batch->items) check(news);
}

std::string joined(const protocol::Reported& report) {
    std::string out = "{";
    for (const auto& [rank, text] : report.metrics_json) {
        out += (out.size() > 1 ? ",\"" : "\"") + std::to_string(rank) + "\":";
        out += text;
    }
    if (!report.checkpoint.empty())
        out += (out.size() > 1 ? "," : "") + std::string("\"checkpoint\":") + json_text(json(report.checkpoint));
    return out + "}";
}

Reports::Taken Reports::take(const Cluster& cluster, const protocol::Reported& report) {
    const Attempt* attempt = find_attempt(cluster, report.attempt);
    const auto run = cluster.runs.find(RunId{report.attempt.run});
    if (!attempt || run == cluster.runs.end()) return {};
    Taken taken;
    if (!report.checkpoint.empty()) reported_checkpoint_[attempt->id] = report.checkpoint;
    const auto rank0 = report.metrics_json.find(0);
    protocol::Reported shown{.checkpoint = report.checkpoint};
    if (rank0 != report.metrics_json.end()) shown.metrics_json[0] = shown_of(rank0->second);
    const auto lost =
        keep({.attempt = attempt->id, .index = report.index, .wall_ms = report.wall_ms, .ranks_json = joined(report)},
             joined(shown));
    if (lost && losing_.insert(attempt->id.run).second) taken.first_lost = lost;

    std::vector<Event>& events = taken.events;
    if (begun_.insert(attempt->id).second) events.push_back(FirstReport{attempt->id});
    if (!reached_.contains(attempt->id) && rank0 != report.metrics_json.end())
        if (const auto stop = worker::reached_stop(run->second.spec.stop_at, rank0->second)) {
            reached_.insert(attempt->id);
            events.push_back(StopMetricReached{attempt->id, stop->first, stop->second});
        }
    return taken;
}

// Counts the row as received until it is written. After that, `saved` counts its size in the table.
std::optional<Error> Reports::keep(state::MetricRow row, std::string shown_json) {
    const RunId run = row.attempt.run;
    const KeptBytes waits = bytes_of(row);
    if (const Status may = bytes_.may_add(run, Kept::reports, waits); !may) return may.error();
    bytes_.add(run, Kept::reports, waits);
    waiting_bytes_ += row.ranks_json.size();
    show(row, std::move(shown_json));
    waiting_.push_back(std::move(row));
    return std::nullopt;
}

void Reports::saved(const std::vector<state::MetricRow>& rows, const std::map<RunId, std::int64_t>& grown) {
    for (const state::MetricRow& row : rows) bytes_.add(row.attempt.run, Kept::reports, -bytes_of(row));
    for (const auto& [run, bytes] : grown) bytes_.add(run, Kept::reports, {.database = bytes});
}

void Reports::show(const state::MetricRow& row, std::string shown_json) {
    auto& last = last_[row.attempt.run];
    const std::size_t before = last ? last->ranks_json.size() : 0;
    bytes_.add(row.attempt.run, Kept::reports,
               {.memory = static_cast<std::int64_t>(shown_json.size()) - static_cast<std::int64_t>(before)});
    last = std::make_shared<const state::MetricRow>(state::MetricRow{.attempt = row.attempt,
                                                                     .index = row.index,
                                                                     .wall_ms = row.wall_ms,
                                                                     .ranks_json = std::move(shown_json),
                                                                     .position = row.position});
}

void Reports::remember(const state::MetricRow& row) {
    std::string shown;
    storage::each_member(row.ranks_json, [&](std::string_view name, std::string_view value) {
        if (name == "checkpoint") reported_checkpoint_[row.attempt] = parse_json(value).get<std::string>();
        if (name != "0" && name != "checkpoint") return;
        shown += (shown.empty() ? "{\"" : ",\"") + std::string(name) + "\":" + shown_of(value);
    });
    show(row, shown.empty() ? "{}" : shown + "}");
}

std::vector<state::MetricRow> Reports::to_save() {
    waiting_bytes_ = 0;
    return std::exchange(waiting_, {});
}

std::size_t Reports::waiting() const {
    // Returns how many rows wait. A row counts as several if it is long: a batch holds some 2 MiB of rows, and further
    // ones wait for its transaction.
    constexpr std::size_t usual_bytes = 1 << 10;
    return waiting_.size() + waiting_bytes_ / usual_bytes;
}

std::shared_ptr<const state::MetricRow> Reports::last(RunId run) const {
    const auto entry = last_.find(run);
    return entry == last_.end() ? nullptr : entry->second;
}

std::vector<CheckpointLost> Reports::lost_with(const Cluster& cluster, const NodeId& node,
                                               const std::string& fate) const {
    std::vector<CheckpointLost> lost;
    for (const auto& [id, directory] : reported_checkpoint_) {
        const auto attempt = cluster.attempts.find(id);
        if (attempt == cluster.attempts.end() || terminal(attempt->second.state)) continue;
        const std::vector<Worker>& workers = attempt->second.workers;
        if (workers.empty() || workers.front().seat.node != node) continue;
        if (cluster.checkpoints.contains({.run = id.run, .directory = directory})) continue;
        lost.push_back({.attempt = id, .why = directory + " was on its way when node " + node.value + " " + fate});
    }
    return lost;
}

void Reports::end(RunId run) {
    reported_checkpoint_.erase(reported_checkpoint_.lower_bound({run, 0}),
                               reported_checkpoint_.upper_bound({run, ~0u}));
    for (std::set<AttemptId>* of_runs : {&begun_, &reached_})
        of_runs->erase(of_runs->lower_bound({run, 0}), of_runs->upper_bound({run, ~0u}));
}

void Reports::forget(RunId run) {
    end(run);
    std::erase_if(waiting_, [&](const state::MetricRow& row) { return row.attempt.run == run; });
    last_.erase(run);
    losing_.erase(run);
}

}  // namespace rtrain::head
