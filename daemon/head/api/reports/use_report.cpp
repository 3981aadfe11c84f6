// Answers how many GPU and CPU hours users, queues or runs had in a span of time, and which share was productive.
#include <charconv>
#include <memory>

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/loop/slices.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "scheduler/goodput/time_by_cause.hpp"

namespace rtrain::head {
namespace {

constexpr double ms_of_hour = 3'600'000;

struct ReportSpan {
    // begin and end of the period in the query; wall clock, in milliseconds since 1970 (UTC)
    std::int64_t from_ms = 0, until_ms = 0;
};
struct UseRow {
    std::string user, queue, run_id, name;
    std::size_t runs = 0;
    double gpu_ms = 0, cpu_ms = 0;
    double productive_gpu_ms = 0, productive_cpu_ms = 0;
};

// Returns for how many milliseconds of the period the attempt held its resources.
std::int64_t held_ms(const View& view, const Attempt& attempt, const ReportSpan& span) {
    if (attempt.placed_at.ms == 0) return 0;
    const Time end = terminal(attempt.state) ? attempt.ended_at : view.clock.now();
    const std::int64_t from = std::max(view.clock.to_wall(attempt.placed_at), span.from_ms);
    return std::max<std::int64_t>(std::min(view.clock.to_wall(end), span.until_ms) - from, 0);
}

double amount_in_units(std::int64_t ticks) { return static_cast<double>(ticks) / Amount::per_unit; }

// Adds the use of one run. A run without an attempt in the period has no use.
void add_use(UseRow& row, const View& view, const Run& run, const ReportSpan& span) {
    double gpu_ms = 0, cpu_ms = 0;
    bool any = false;
    for (const Attempt* attempt : attempts_of(view.cluster, run.id)) {
        const auto ms = static_cast<double>(held_ms(view, *attempt, span));
        any = any || ms > 0;
        for (std::size_t rank = 0; rank < attempt->workers.size(); ++rank) {
            for (const GpuShare& share : attempt->workers[rank].seat.gpus)
                gpu_ms += ms * amount_in_units(share.amount.ticks);
            if (rank < run.spec.gang.bundles.size())
                cpu_ms += ms * amount_in_units(amount_of(run.spec.gang.bundles[rank].demand, cpu_key).ticks);
        }
    }
    if (!any) return;
    const double productive = time_by_cause(view.cluster, run, view.clock.now(), view.waits.all()).goodput();
    ++row.runs;
    row.gpu_ms += gpu_ms;
    row.cpu_ms += cpu_ms;
    row.productive_gpu_ms += gpu_ms * productive;
    row.productive_cpu_ms += cpu_ms * productive;
}

json row_json(const UseRow& row) {
    const bool by_gpu = row.gpu_ms > 0;
    const double held = by_gpu ? row.gpu_ms : row.cpu_ms;
    return {{"user", row.user},
            {"queue", row.queue},
            {"run_id", row.run_id},
            {"name", row.name},
            {"runs", row.runs},
            {"gpu_hours", row.gpu_ms / ms_of_hour},
            {"cpu_hours", row.cpu_ms / ms_of_hour},
            {"efficiency", held > 0 ? json((by_gpu ? row.productive_gpu_ms : row.productive_cpu_ms) / held) : json()}};
}

std::optional<std::int64_t> wall_of(const std::string& text) {
    std::int64_t ms = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), ms);
    const bool whole = failed == std::errc{} && end == text.data() + text.size() && ms >= 0;
    return whole ? std::optional(ms) : std::nullopt;
}

struct UseReport {
    Exchange exchange;
    ReportSpan span;
    std::string by;
    RunId last{};
    std::map<std::string, UseRow> rows{};

    UseRow& row_of(const Run& run) {
        const std::string id = exchange.view.run_id(run.id);
        UseRow& row = rows[by == "run" ? id : by == "queue" ? run.spec.queue : run.user];
        if (by != "queue") row.user = run.user;
        if (by != "user") row.queue = run.spec.queue;
        if (by == "run") row.run_id = id;
        if (by == "run") row.name = run.name;
        return row;
    }
    // Adds the next run. Returns false after the last run. Runs may be removed between two calls.
    bool step() {
        const auto& runs = exchange.view.cluster.runs;
        const auto at = runs.upper_bound(last);
        if (at == runs.end()) return false;
        last = at->first;
        const Run& run = at->second;
        const bool before = terminal(run.state) && run.ended_wall_ms < span.from_ms;
        if (!before && run.submitted_wall_ms < span.until_ms) add_use(row_of(run), exchange.view, run, span);
        return true;
    }
    void answer() {
        json items = json::array();
        for (const auto& [key, row] : rows)
            if (row.runs > 0) items.push_back(row_json(row));
        reply_json(exchange, 200, {{"items", std::move(items)}, {"next_cursor", json()}});
    }
};

}  // namespace

void get_report(Exchange& exchange) {
    const auto from = wall_of(exchange.query("from_ms")), until = wall_of(exchange.query("until_ms"));
    const std::string by = exchange.query("by", "user");
    if (!from || !until || *from >= *until)
        return refuse(exchange, {ErrorCode::usage, "from_ms and until_ms are milliseconds since 1970, in this order",
                                 "rtrain report --month YYYY-MM"});
    if (by != "user" && by != "queue" && by != "run")
        return refuse(exchange, {ErrorCode::usage, "by is user, queue or run", "rtrain report --help"});
    const auto report = std::make_shared<UseReport>(
        UseReport{.exchange = exchange, .span = {.from_ms = *from, .until_ms = *until}, .by = by});
    in_slices(exchange.background, [report] {
        if (report->step()) return true;
        report->answer();
        return false;
    });
}

}  // namespace rtrain::head
