// Events and reports: pages of what was, and streams of what comes. Stream ids are positions, so a reader that was cut
// goes on where it was (Last-Event-ID, or ?after=).
#include <charconv>

#include "daemon/head/api.hpp"
#include "daemon/head/view_json.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t batch = 200;

std::uint64_t number_or(const std::string& text, std::uint64_t otherwise) {
    std::uint64_t value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    return fault == std::errc{} && end == text.data() + text.size() ? value : otherwise;
}

std::uint64_t after_of(const Ask& ask) {
    const std::string resumed = ask.request.header("last-event-id");
    return number_or(resumed.empty() ? ask.query("after") : resumed, 0);
}

json chosen(json metrics, const std::string& key) {
    if (key.empty()) return metrics;
    json out = json::object();
    if (metrics["metrics"].contains(key)) out[key] = metrics["metrics"][key];
    metrics["metrics"] = std::move(out);
    return metrics;
}

void follow_events(Ask& ask, std::uint64_t after, std::optional<RunId> run) {
    auto stream = ask.responder->stream("text/event-stream");
    if (!stream) return;
    ask.head.feeds.add(std::move(stream), [&head = ask.head, after, run](net::Stream& to) mutable {
        const auto rows = head.journal->events(EventId{after}, batch, run);
        for (const state::EventRow& row : rows) {
            after = row.id.value;
            if (!to.write(sse(text_of(event_json(head, row)), std::to_string(after)))) return Feeds::Pumped::ended;
        }
        return rows.size() == batch ? Feeds::Pumped::again : Feeds::Pumped::goes_on;
    });
}

void follow_metrics(Ask& ask, RunId run, std::uint64_t after, std::string key) {
    auto stream = ask.responder->stream("text/event-stream");
    if (!stream) return;
    ask.head.feeds.add(std::move(stream), [&head = ask.head, run, after, key](net::Stream& to) mutable {
        const auto rows = head.journal->metrics(run, after, batch);
        for (const state::MetricRow& row : rows) {
            after = row.position;
            if (!to.write(sse(text_of(chosen(metric_json(row), key)), std::to_string(after))))
                return Feeds::Pumped::ended;
        }
        if (rows.size() == batch) return Feeds::Pumped::again;
        const auto found = head.cluster.runs.find(run);
        if (found != head.cluster.runs.end() && !terminal(found->second.state)) return Feeds::Pumped::goes_on;
        to.write(sse("{}", "", "end"));
        return Feeds::Pumped::ended;
    });
}

}  // namespace

void get_events(Ask& ask) {
    std::optional<RunId> run;
    if (!ask.query("run").empty()) {
        const auto found = find_run(ask.head, ask.query("run"));
        if (!found) return refuse(ask, found.error());
        run = *found;
    }
    if (ask.asked("follow")) return follow_events(ask, after_of(ask), run);
    const auto page = page_of(ask);
    if (!page) return refuse(ask, page.error());
    const std::uint64_t after = ask.query("cursor").empty() ? after_of(ask) : page->offset;
    json items = json::array(), cursor;
    for (const state::EventRow& row : ask.head.journal->events(EventId{after}, page->limit, run)) {
        items.push_back(event_json(ask.head, row));
        if (items.size() == page->limit) cursor = std::to_string(row.id.value);
    }
    reply_json(ask, 200, {{"items", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

void get_metrics(Ask& ask) {
    const auto run = find_run(ask.head, ask.variables["run"]);
    if (!run) return refuse(ask, run.error());
    const std::string key = ask.query("key");
    if (ask.query("rank", "0") != "0")
        return refuse(ask, {ErrorCode::usage, "only the metrics of rank 0 are kept on the head",
                            "the others are in attempts/NNNNNN/metrics-*.jsonl of the run's directory"});
    if (ask.asked("follow")) return follow_metrics(ask, *run, after_of(ask), key);
    const auto page = page_of(ask);
    if (!page) return refuse(ask, page.error());
    const std::uint64_t after = ask.query("cursor").empty() ? after_of(ask) : page->offset;
    ask.head.acknowledge();  // rows that came but are not written yet belong to the answer
    json items = json::array(), cursor;
    for (const state::MetricRow& row : ask.head.journal->metrics(*run, after, page->limit)) {
        items.push_back(chosen(metric_json(row), key));
        if (items.size() == page->limit) cursor = std::to_string(row.position);
    }
    reply_json(ask, 200, {{"items", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

}  // namespace rtrain::head
