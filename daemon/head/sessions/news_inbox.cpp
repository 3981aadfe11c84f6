// See news_inbox.hpp.
#include "daemon/head/sessions/news_inbox.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "daemon/head/events/news.hpp"
#include "daemon/head/events/node_rights.hpp"
#include "daemon/head/sessions/counting.hpp"

namespace rtrain::head {
namespace {

const std::string seen_prefix = "news_seen/";

}  // namespace

// Loads the number of each node's last durable news, so that no agent's message waits for the disk later.
void NewsInbox::recall(const state::SqliteJournal& journal) {
    for (const auto& [key, number] : journal.settings(seen_prefix)) {
        Box& box = boxes_[key.substr(seen_prefix.size())];
        box.received = box.durable = std::strtoull(number.c_str(), nullptr, 10);
    }
}

void NewsInbox::begin(const std::string& node, std::uint64_t next_number) {
    Box& box = boxes_[node];
    if (next_number > box.received) return;
    box.received = box.durable = 0;
    ++box.installation;
    unsaved_.insert(node);
}

std::optional<std::string> NewsInbox::take(const std::string& node, const protocol::News& news) {
    Box& box = boxes_[node];
    events_.later_acknowledge();
    unacknowledged_.insert(node);
    if (news.seq <= box.received) return std::nullopt;
    box.received = news.seq;
    unsaved_.insert(node);
    const Cluster& cluster = view_.cluster;
    if (auto why_not = objection(cluster, NodeId{node}, news))
        return of_unknown_attempt(cluster, news) ? std::nullopt : std::move(why_not);
    count_news(metrics_, view_, news);
    if (const auto* report = std::get_if<protocol::Reported>(&news.what)) {
        Reports::Taken taken = reports_.take(cluster, *report);
        if (taken.first_lost) lost(*report, *taken.first_lost);
        for (Event& event : taken.events) {
            if (const auto* first = std::get_if<FirstReport>(&event); first && first_report_)
                first_report_(first->attempt);
            events_.take(std::move(event));
        }
        return std::nullopt;
    }
    // A notice about a lost checkpoint is an event too.
    if (const auto* message = std::get_if<protocol::Notice>(&news.what)) notice(node, *message);
    if (auto event = event_of(cluster, NodeId{node}, view_.clock.now(), news)) {
        const auto* message = std::get_if<protocol::Notice>(&news.what);
        if (const auto* lost = std::get_if<CheckpointLost>(&*event); lost && message->reason != "checkpoint_replaced")
            reports_.gave_up_checkpoint(lost->attempt);
        if (auto* exited = std::get_if<WorkerExited>(&*event)) exited->ago = ago(*exited);
        events_.take(std::move(*event));
    }
    return std::nullopt;
}

// Returns how long ago a worker exited, by the node's clock. If a later heartbeat contained the rank, the rank lived
// then, whatever that clock shows.
Duration NewsInbox::ago(const WorkerExited& exited) const {
    std::int64_t ago_ms = wall_ms() - exited.exit_wall_us / 1'000;
    if (const auto seen = view_.waits.seen_ms(exited.attempt, exited.rank))
        ago_ms = std::min(ago_ms, monotonic_ms() - *seen);
    return {std::max<std::int64_t>(0, ago_ms)};
}

// Adds a notice that a report was not stored, with the reason. People who look at the run or follow its logs see why
// its charts end.
void NewsInbox::lost(const protocol::Reported& report, const Error& why) {
    events_.note({.wall_ms = wall_ms(),
                  .text = "not all reports of this run are kept, from report " + std::to_string(report.index) +
                          " on; it goes on: " + why.message + "; " + why.next,
                  .about_run = RunId{report.attempt.run},
                  .about_node = std::nullopt});
}

void NewsInbox::notice(const std::string& node, const protocol::Notice& message) {
    std::optional<RunId> run;
    if (view_.cluster.runs.contains(RunId{message.attempt.run})) run = RunId{message.attempt.run};
    state::Notice notice{.wall_ms = wall_ms(), .text = message.text, .about_run = run, .about_node = NodeId{node}};
    if (message.reason == protocol::reason_of_starts) notice.kind = "WorkerStarts";
    events_.note(std::move(notice));
}

void NewsInbox::add_numbers(Pending& batch) {
    for (const std::string& node : std::exchange(unsaved_, {})) {
        const Box& box = boxes_.at(node);
        batch.news[node] = {.number = box.received, .installation = box.installation};
        batch.batch.settings[seen_prefix + node] = std::to_string(box.received);
    }
}

void NewsInbox::numbers_saved(const Pending& batch) {
    for (const auto& [node, saved] : batch.news) {
        Box& box = boxes_.at(node);
        if (box.installation == saved.installation) box.durable = saved.number;
    }
}

void NewsInbox::acknowledge(const std::function<void(const std::string& node, std::uint64_t durable)>& send) {
    for (const std::string& node : std::exchange(unacknowledged_, {})) {
        const Box& box = boxes_[node];
        // news after the durable one are acknowledged later, when they are durable
        if (box.durable != box.received) unacknowledged_.insert(node);
        send(node, box.durable);
    }
}

}  // namespace rtrain::head
