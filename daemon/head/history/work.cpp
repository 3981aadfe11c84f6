// See work.hpp.
#include "daemon/head/history/work.hpp"

#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "daemon/head/base/clock.hpp"
#include "daemon/head/history/report_numbers.hpp"
#include "storage/history/limits.hpp"

namespace rtrain::head {
namespace {

using history::Point;
using history::Series;
using history::Window;

constexpr std::int64_t prune_every_ms = 600'000, silent_ms = 600'000;

history::NamedSample sample_of(const state::MetricRow& row) {
    return {.at = row.position,
            .wall_ms = row.wall_ms,
            .attempt = row.attempt.number,
            .step = row.index,
            .values = numbers_of_rank_0(row.ranks_json)};
}

// Appends a member of a JSON object: a list with `of(point)` for each point.
template <class Of>
void add_list(std::string& out, const char* name, const std::vector<Point>& points, Of of) {
    out += (out.back() == '{' ? "\"" : ",\"") + std::string(name) + "\":[";
    char text[32];
    for (const Point& point : points) {
        if (out.back() != '[') out += ',';
        out.append(text, std::to_chars(text, text + sizeof text, of(point)).ptr);
    }
    out += ']';
}

void add_ranges(std::string& out, const std::vector<Point>& points) {
    add_list(out, "min", points, [](const Point& point) { return point.range.least; });
    add_list(out, "max", points, [](const Point& point) { return point.range.greatest; });
}

std::string keys_answer(const std::string& head, const std::vector<std::string>& keys, std::uint64_t last) {
    return "{" + head + ",\"keys\":" + json_text(nlohmann::json(keys)) + ",\"last\":" + std::to_string(last) + "}";
}

// Returns the window of a usage chart. A missing end becomes the newest sample, a missing begin one day before the end.
Window usage_window(Window window, std::uint64_t newest) {
    window.last = window.last == 0 ? newest : std::min(window.last, newest);
    const auto day = static_cast<std::uint64_t>(history::usage_kept_s);
    if (window.first == 0) window.first = window.last > day ? window.last - day : 0;
    return window;
}

std::string usage_members(const Series& series) {
    std::string out = "\"seconds_per_point\":" + std::to_string(series.samples_per_point) + ",\"points\":{";
    add_list(out, "time_ms", series.points, [](const Point& point) { return point.first * 1'000; });
    add_ranges(out, series.points);
    return out + "}";
}

}  // namespace

void ChartHistory::Work::open(const std::set<RunId>& runs) {
    auto opened = history::Store::open(data_dir + "/" + history::database_name);
    if (!opened) return close(opened.error());
    auto reader = history::ReportReader::open(data_dir);
    if (!reader) return close(reader.error());
    store.emplace(std::move(*opened));
    reports.emplace(std::move(*reader));
    // Removes the levels of runs that no longer exist, or whose levels are newer than state.db, as after a restored
    // backup. Levels of present runs are computed again.
    for (const std::string& subject : store->subjects(history::Kind::run)) {
        const RunId run{std::strtoull(subject.c_str() + subject.find('/') + 1, nullptr, 10)};
        const auto last = store->last(subject), there = reports->last_position(run);
        if (runs.contains(run) && last && there && *last <= *there) continue;
        if (const Status gone = store->forget(subject); !gone) return close(gone.error());
    }
}

void ChartHistory::Work::close(const Error& why) {
    complain(why);
    closed = {ErrorCode::unreachable, "the charts' history cannot be read: " + why.message,
              "restart the head: a damaged history is made anew from the reports"};
    store.reset();
    reports.reset();
}

void ChartHistory::Work::complain(const Error& why) {
    if (!complained) std::fprintf(stderr, "rtrain head: the charts' history: %s\n", why.message.c_str());
    complained = true;
}

Result<bool> ChartHistory::Work::catch_up(RunId run, std::size_t most) {
    if (!store) return false;
    const std::string subject = history_of_run(run);
    const auto last = store->last(subject);
    if (!last) return last.error();
    const auto page = reports->rows(run, *last, most);
    if (!page) return page.error();
    for (const state::MetricRow& row : page->rows)
        if (const Status added = store->add(subject, history::Kind::run, sample_of(row)); !added) return added.error();
    if (const Status written = store->flush_full(subject, monotonic_ms()); !written) complain(written.error());
    return page->more;
}

void ChartHistory::Work::take(const HeardHeartbeat& heartbeat) {
    if (!store) return;
    const std::string node = history_of_node(heartbeat.node);
    for (const SubjectSample& heard : rates.samples(heartbeat)) {
        const auto& [subject, sample] = heard;
        if (subject == node) cluster_use.heard(heard);
        if (!store->loaded(subject) && rates.subjects() > history::usage_subjects_most) continue;
        if (const Status added = store->add(subject, history::Kind::usage, sample); !added) complain(added.error());
    }
}

void ChartHistory::Work::take(const ClusterCounts& counts) {
    if (!store) return;
    const history::NamedSample sample = cluster_use.sample(counts);
    if (const Status added = store->add(history_of_cluster, history::Kind::cluster, sample); !added)
        complain(added.error());
}

void ChartHistory::Work::upkeep(std::int64_t now_ms, std::int64_t wall_s) {
    if (!store) return;
    Status done = store->flush(history::Store::Which::due, now_ms);
    store->unload(now_ms, history::memory_most);
    if (done && (pruned_ms == 0 || now_ms - pruned_ms >= prune_every_ms)) {
        pruned_ms = now_ms;
        rates.forget_before(now_ms - silent_ms);
        done = store->prune(wall_s, history::usage_bytes_most);
    }
    if (!done) return complain(done.error());
    complained = false;
}

// Returns the series of a short window, read from the reports themselves: each report is a point.
Result<Series> ChartHistory::Work::raw(RunId run, const std::string& key, const Window& window) {
    history::Joiner joiner(window, 1);
    std::uint64_t after = window.first - 1;
    while (after < window.last) {
        const auto page = reports->rows(run, after, std::min<std::size_t>(rows_at_once, window.last - after));
        if (!page) return page.error();
        if (page->rows.empty()) break;
        for (const state::MetricRow& row : page->rows) {
            history::Range range;
            for (const auto& [name, value] : numbers_of_rank_0(row.ranks_json))
                if (name == key) range.add(value);
            joiner.add(
                {.bucket = row.position, .wall_ms = row.wall_ms, .attempt = row.attempt.number, .step = row.index},
                range);
        }
        after = page->rows.back().position;
    }
    return Series{.samples_per_point = joiner.samples_per_point(), .points = std::move(joiner.points)};
}

Result<std::string> ChartHistory::Work::answer_run(RunId run, const Question& question) {
    for (bool more = true; more;) {
        const auto caught_up = catch_up(run, rows_at_once);
        if (!caught_up) return caught_up.error();
        more = *caught_up;
    }
    const std::string subject = history_of_run(run);
    const auto newest = store->last(subject);
    if (!newest) return newest.error();
    if (question.key.empty()) {
        const auto keys = store->keys(subject);
        if (!keys) return keys.error();
        return keys_answer(question.head, *keys, *newest);
    }
    Window window = question.window;
    window.first = std::max<std::uint64_t>(1, window.first);
    window.last = window.last == 0 ? *newest : std::min(window.last, *newest);
    const bool few =
        window.count() <= std::min(history::reports_read_most, history::reports_read_per_point * window.points);
    const auto series = few ? raw(run, question.key, window) : store->read(subject, question.key, window);
    if (!series) return series.error();
    std::string out = "{" + question.head + ",\"last\":" + std::to_string(*newest) +
                      ",\"reports_per_point\":" + std::to_string(series->samples_per_point) + ",\"points\":{";
    // The first bucket of a level is [0, width), but positions begin with 1.
    add_list(out, "position", series->points,
             [](const Point& point) { return std::max<std::uint64_t>(1, point.first); });
    add_list(out, "attempt", series->points, [](const Point& point) { return point.mark.attempt; });
    add_list(out, "step", series->points, [](const Point& point) { return point.mark.step; });
    add_list(out, "time_ms", series->points, [](const Point& point) { return point.mark.wall_ms; });
    add_ranges(out, series->points);
    return out + "}}";
}

Result<std::string> ChartHistory::Work::answer_usage(const Question& question) {
    const auto newest = store->last(question.subject);
    if (!newest) return newest.error();
    if (question.key.empty()) {
        const auto keys = store->keys(question.subject);
        if (!keys) return keys.error();
        return keys_answer(question.head, *keys, *newest);
    }
    const auto series = store->read(question.subject, question.key, usage_window(question.window, *newest));
    if (!series) return series.error();
    return "{" + question.head + ",\"last\":" + std::to_string(*newest) + "," + usage_members(*series) + "}";
}

// Answers with a chart for each rank. Leaves out ranks without a value.
Result<std::string> ChartHistory::Work::answer_ranks(RunId run, std::uint32_t ranks, const Question& question) {
    std::uint64_t newest = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const auto last = store->last(history_of_rank(run, rank));
        if (!last) return last.error();
        newest = std::max(newest, *last);
    }
    const Window window = usage_window(question.window, newest);
    std::string items;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const auto series = store->read(history_of_rank(run, rank), question.key, window);
        if (!series) return series.error();
        if (series->points.empty()) continue;
        items +=
            (items.empty() ? "" : ",") + ("{\"rank\":" + std::to_string(rank)) + "," + usage_members(*series) + "}";
    }
    return "{" + question.head + ",\"last\":" + std::to_string(newest) + ",\"ranks\":[" + items + "]}";
}

}  // namespace rtrain::head
