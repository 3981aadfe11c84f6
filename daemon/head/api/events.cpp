// Events: pages of what was, and a stream of what comes. Stream ids are positions, so a reader that was cut
// goes on where it was (Last-Event-ID, or ?after=).
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/loop/feeds.hpp"
#include "daemon/head/requests/job_output.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "storage/base/json_text.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t rows_each = 200;

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
    json items = json::array(), cursor;
    if (*last > 0) {
        for (const state::EventRow& row : journal.last_events(*last, run))
            items.push_back(event_for(exchange.view, exchange.caller, row));
        return reply_json(exchange, 200, {{"items", std::move(items)}, {"next_cursor", cursor}});
    }
    const std::uint64_t after = exchange.query("cursor").empty() ? after_of(exchange) : page->offset;
    for (const state::EventRow& row : journal.events(EventId{after}, page->limit, run)) {
        items.push_back(event_for(exchange.view, exchange.caller, row));
        if (items.size() == page->limit) cursor = std::to_string(row.id.value);
    }
    reply_json(exchange, 200, {{"items", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

}  // namespace rtrain::head
