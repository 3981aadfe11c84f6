// Lists events and streams new ones. Ids of the stream are positions, so a reader whose connection broke continues at
// the same event (Last-Event-ID, or ?after=).
#include "base/json_text.hpp"
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/loop/feeds.hpp"
#include "daemon/head/requests/job_output.hpp"
#include "daemon/head/requests/pages_json.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t rows_each = 200;
constexpr std::size_t event_page_bytes = 2 << 20;  // the most bytes of texts in one page

void follow_events(Exchange& exchange, const state::SqliteJournal& journal, Feeds& feeds, std::uint64_t after,
                   std::optional<RunId> run) {
    auto stream = exchange.responder->stream("text/event-stream");
    if (!stream) return;
    feeds.add(
        std::move(stream),
        [&view = exchange.view, &journal, caller = exchange.caller, after, run](net::Stream& to) mutable {
            const auto rows = journal.events(EventId{after}, rows_each, run);
            for (const state::EventRow& row : rows) {
                after = row.id.value;
                if (!to.write(sse(json_text(event_for(view, caller, row)), std::to_string(after))))
                    return Feeds::Pumped::ended;
            }
            return rows.size() == rows_each ? Feeds::Pumped::again : Feeds::Pumped::goes_on;
        },
        exchange.permitted);
}

}  // namespace

void get_events(Exchange& exchange, const state::SqliteJournal& journal, Feeds& feeds) {
    std::optional<RunId> run;
    if (!exchange.query("run").empty()) {
        const auto named_run = find_run(exchange.view, exchange.query("run"));
        if (!named_run) return refuse(exchange, named_run.error());
        run = *named_run;
    }
    if (exchange.asked("follow")) return follow_events(exchange, journal, feeds, after_of(exchange), run);
    const auto page = page_of(exchange);
    if (!page) return refuse(exchange, page.error());
    const auto last = last_of(exchange);
    if (!last) return refuse(exchange, last.error());
    const std::uint64_t after = exchange.query("cursor").empty() ? after_of(exchange) : page->offset;
    read_on_pool(
        exchange,
        [&journal, after, run, limit = page->limit, last = *last] {
            if (last == 0) return journal.events_page(EventId{after}, {.rows = limit, .bytes = event_page_bytes}, run);
            const state::PageBounds most{.rows = last, .bytes = event_page_bytes};
            return state::PageOf<state::EventRow>{.rows = journal.last_events(most, run), .more = false};
        },
        [](Exchange& to, const state::PageOf<state::EventRow>& read) {
            reply_list(
                to, Page{.limit = read.rows.size()},
                [&view = to.view, caller = to.caller, read, at = std::size_t{0}](Listing& list, json& cursor) mutable {
                    if (at < read.rows.size()) {
                        list.add(event_for(view, caller, read.rows[at++]));
                        return true;
                    }
                    if (read.more) cursor = std::to_string(read.rows.back().id.value);
                    return false;
                });
        });
}

}  // namespace rtrain::head
