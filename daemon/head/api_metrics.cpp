// What the ranks of a run reported: pages of what was, and a stream of what comes, of one rank, several, or all. Ids of
// the stream and "position" of a row are the same numbers, so a reader that was cut goes on where it was.
#include "daemon/head/api.hpp"
#include "daemon/head/log_lines.hpp"
#include "daemon/head/view_json.hpp"
#include "storage/spec/limits.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t batch = 500;
constexpr std::size_t turn_bytes = 1 << 20;  // at once: more than 4 MiB that wait would cut the reader

struct MetricQuestion {
    RankChoice ranks;
    std::string key;
};

Result<RankChoice> choice_of(const Ask& ask, RunId run) {
    const std::string text = ask.query("rank", "0");
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
    for (const Attempt* attempt : attempts_of(ask.head.cluster, run)) world = std::max(world, attempt->workers.size());
    if (world > 0 && ranks->highest() >= world)
        return Error{ErrorCode::not_found,
                     "there is no rank " + std::to_string(ranks->highest()) + ": the run had at most " +
                         std::to_string(world) + " workers",
                     "rtrain describe RUN"};
    out.ranks = *ranks;
    return out;
}

void follow(Ask& ask, RunId run, std::uint64_t after, const MetricQuestion& question) {
    auto stream = ask.responder->stream("text/event-stream");
    if (!stream) return;
    ask.head.feeds.add(
        std::move(stream),
        [&head = ask.head, run, after, question](net::Stream& to) mutable {
            const auto rows = head.journal->metrics(run, after, batch);
            std::string out;
            bool whole = true;
            for (const state::MetricRow& row : rows) {
                if (out.size() > turn_bytes) {
                    whole = false;
                    break;
                }
                after = row.position;
                out += sse(text_of(metric_json(row, question.ranks, question.key)), std::to_string(after));
            }
            if (!out.empty() && !to.write(std::move(out))) return Feeds::Pumped::ended;
            if (!whole || rows.size() == batch) return Feeds::Pumped::again;
            const auto found = head.cluster.runs.find(run);
            if (found != head.cluster.runs.end() && !head.ended_for_good(found->second)) return Feeds::Pumped::goes_on;
            to.write(sse("{}", "", "end"));
            return Feeds::Pumped::ended;
        },
        still_permitted(ask));
}

}  // namespace

void get_metrics(Ask& ask) {
    const auto run = find_run(ask.head, ask.variables["run"]);
    if (!run) return refuse(ask, run.error());
    const auto ranks = choice_of(ask, *run);
    if (!ranks) return refuse(ask, ranks.error());
    const MetricQuestion question{.ranks = *ranks, .key = ask.query("key")};
    const auto page = page_of(ask);
    if (!page) return refuse(ask, page.error());
    ask.head.settle();  // rows that came but are not written yet belong to the answer
    if (ask.asked("follow")) return follow(ask, *run, after_of(ask), question);
    const std::uint64_t after = ask.query("cursor").empty() ? after_of(ask) : page->offset;
    json items = json::array(), cursor;
    for (const state::MetricRow& row : ask.head.journal->metrics(*run, after, page->limit)) {
        items.push_back(metric_json(row, question.ranks, question.key));
        if (items.size() == page->limit) cursor = std::to_string(row.position);
    }
    reply_json(ask, 200, {{"items", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

}  // namespace rtrain::head
