// The reports of a run's ranks: pages of past ones and a stream of new ones, of one rank, several, or all. Ids of the
// stream and "position" of a row are the same numbers, so a reader that was cut off continues where it was.
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/loop/feeds.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/head/view/metric_json.hpp"
#include "storage/base/json_text.hpp"
#include "storage/spec/limits.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t rows_at_once = 500;
constexpr std::size_t bytes_at_once = 1 << 20;  // at once: more than 4 MiB that wait would cut the reader

struct MetricQuestion {
    RankChoice ranks;
    std::string key;
};

Result<RankChoice> choice_of(const Exchange& exchange, RunId run) {
    const std::string text = exchange.query("rank", "0");
    RankChoice out;
    out.all = text == "all";
    if (out.all) return out;
    const auto ranks = number_list(text);
    if (!ranks || ranks->empty())
        return Error{ErrorCode::usage,
                     "rank=" + (text.size() > 100 ? text.substr(0, 100) + "..." : text) +
                         " is not understood: a number, a list such as 0,3-5 (at most " +
                         std::to_string(spec::ranges_most) + " parts), or all",
                     "rtrain metrics --help"};
    std::size_t world = 0;
    for (const Attempt* attempt : attempts_of(exchange.view.cluster, run))
        world = std::max(world, attempt->workers.size());
    if (world > 0 && ranks->highest() >= world)
        return Error{ErrorCode::not_found,
                     "there is no rank " + std::to_string(ranks->highest()) + ": the run had at most " +
                         std::to_string(world) + " workers",
                     "rtrain describe RUN"};
    out.ranks = *ranks;
    return out;
}

void follow_reports(Exchange& exchange, const state::SqliteJournal& journal, Feeds& feeds, RunId run,
                    std::uint64_t after, const MetricQuestion& question) {
    auto stream = exchange.responder->stream("text/event-stream");
    if (!stream) return;
    feeds.add(
        std::move(stream),
        [&view = exchange.view, durability = exchange.durability, &journal, run, after,
         question](net::Stream& to) mutable {
            const auto rows = journal.metrics(run, after, rows_at_once);
            std::string out;
            bool whole = true;
            for (const state::MetricRow& row : rows) {
                if (out.size() > bytes_at_once) {
                    whole = false;
                    break;
                }
                after = row.position;
                out += sse(json_text(metric_json(row, question.ranks, question.key)), std::to_string(after));
            }
            if (!out.empty() && !to.write(std::move(out))) return Feeds::Pumped::ended;
            if (!whole || rows.size() == rows_at_once) return Feeds::Pumped::again;
            const auto entry = view.cluster.runs.find(run);
            if (entry != view.cluster.runs.end() && !durability.ended_for_good(entry->second))
                return Feeds::Pumped::goes_on;
            to.write(sse("{}", "", "end"));
            return Feeds::Pumped::ended;
        },
        exchange.permitted);
}

void reply_rows(Exchange& exchange, const state::SqliteJournal& journal, RunId run, const Page& page,
                const MetricQuestion& question) {
    const std::uint64_t after = exchange.query("cursor").empty() ? after_of(exchange) : page.offset;
    json items = json::array(), cursor;
    for (const state::MetricRow& row : journal.metrics(run, after, page.limit)) {
        items.push_back(metric_json(row, question.ranks, question.key));
        if (items.size() == page.limit) cursor = std::to_string(row.position);
    }
    reply_json(exchange, 200, {{"items", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

}  // namespace

void get_metrics(Exchange& exchange, const state::SqliteJournal& journal, Feeds& feeds) {
    const auto run = find_run(exchange.view, exchange.variables["run"]);
    if (!run) return refuse(exchange, run.error());
    const auto ranks = choice_of(exchange, *run);
    if (!ranks) return refuse(exchange, ranks.error());
    const MetricQuestion question{.ranks = *ranks, .key = exchange.query("key")};
    const auto page = page_of(exchange);
    if (!page) return refuse(exchange, page.error());
    // Rows that came but are not written yet belong to the answer.
    exchange.durability.once_written([kept = exchange, &journal, &feeds, run = *run, page = *page, question]() mutable {
        guarded(kept, [&] {
            if (kept.asked("follow")) return follow_reports(kept, journal, feeds, run, after_of(kept), question);
            reply_rows(kept, journal, run, page, question);
        });
    });
}

}  // namespace rtrain::head
