// Lists the reports of a run, with the metrics of one rank, several or all. The ids of the stream (report_follow.hpp)
// equal the "position" of a row, so a reader whose connection broke continues at the same row.
#include "base/json_text.hpp"
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/api/reports/report_follow.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/head/view/metric_json.hpp"
#include "storage/job_spec/limits.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t page_bytes_most = 4 << 20;  // bound on an answer; one row may have 6 MiB
constexpr std::size_t read_bytes_most =
    64 << 20;  // the most bytes that are read for one answer; most of a row may belong to ranks that are not shown

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

// Reads the rows of a page and makes their text outside of the loop, because ranks choose the size of a row.
std::string page_text(const state::SqliteJournal& journal, RunId run, std::uint64_t after, std::size_t limit,
                      const MetricQuestion& question) {
    std::string items;
    std::size_t rows = 0, read = 0;
    bool more = true;
    while (more && rows < limit && items.size() < page_bytes_most && read < read_bytes_most) {
        const auto page = journal.metrics(run, after, {.rows = limit - rows, .bytes = page_bytes_most - items.size()});
        more = page.more;
        for (const state::MetricRow& row : page.rows) {
            items += (items.empty() ? "" : ",") + metric_text(row, question.ranks, question.key);
            after = row.position;
            read += row.ranks_json.size();
        }
        rows += page.rows.size();
    }
    const std::string cursor = more ? '"' + std::to_string(after) + '"' : "null";
    return R"({"items":[)" + items + R"(],"next_cursor":)" + cursor + R"(,"schema_version":1})";
}

void reply_rows(Exchange& exchange, const state::SqliteJournal& journal, RunId run, const Page& page,
                const MetricQuestion& question) {
    const std::uint64_t after = exchange.query("cursor").empty() ? after_of(exchange) : page.offset;
    read_on_pool(
        exchange,
        [&journal, run, after, limit = page.limit, question] {
            return page_text(journal, run, after, limit, question);
        },
        [](Exchange& to, std::string text) { reply(to, 200, std::move(text)); });
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
    // The answer waits until all received rows are written, so that it includes them.
    exchange.durability.once_written([kept = exchange, &journal, &feeds, run = *run, page = *page, question]() mutable {
        guarded(kept, [&] {
            if (kept.asked("follow")) return follow_reports(kept, journal, feeds, {run, after_of(kept), question});
            reply_rows(kept, journal, run, page, question);
        });
    });
}

}  // namespace rtrain::head
