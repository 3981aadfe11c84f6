// Events: pages of what was, and a stream of what comes. Stream ids are positions, so a reader that was cut
// goes on where it was (Last-Event-ID, or ?after=).
#include "daemon/head/api.hpp"
#include "daemon/head/job_words.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t batch = 200;

void follow_events(Ask& ask, std::uint64_t after, std::optional<RunId> run) {
    auto stream = ask.responder->stream("text/event-stream");
    if (!stream) return;
    ask.head.feeds.add(
        std::move(stream),
        [&head = ask.head, caller = ask.caller, after, run](net::Stream& to) mutable {
            const auto rows = head.journal->events(EventId{after}, batch, run);
            for (const state::EventRow& row : rows) {
                after = row.id.value;
                if (!to.write(sse(text_of(event_for(head, caller, row)), std::to_string(after))))
                    return Feeds::Pumped::ended;
            }
            return rows.size() == batch ? Feeds::Pumped::again : Feeds::Pumped::goes_on;
        },
        still_permitted(ask));
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
        items.push_back(event_for(ask.head, ask.caller, row));
        if (items.size() == page->limit) cursor = std::to_string(row.id.value);
    }
    reply_json(ask, 200, {{"items", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

}  // namespace rtrain::head
