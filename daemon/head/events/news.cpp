// See news.hpp.
#include "daemon/head/events/news.hpp"

#include <algorithm>

#include "daemon/protocol/metric_numbers.hpp"
#include "scheduler/model/causes.hpp"
#include "scheduler/model/limits.hpp"

namespace rtrain::head {
namespace {

using protocol::numbers_of;

const std::string& score_of(const Cluster& cluster, RunId run) {
    static const std::string none;
    const auto entry = cluster.runs.find(run);
    return entry == cluster.runs.end() ? none : entry->second.spec.retention.score_attribute;
}

// Converts and limits a duration from an agent, so that sums of durations cannot overflow.
Duration took(std::int64_t ms) {
    constexpr std::int64_t longest_ms = 365LL * 24 * 3'600'000;
    return {std::clamp<std::int64_t>(ms, 0, longest_ms)};
}

// Returns true for those reasons in the agent's coordinator (daemon/agent/machine/coordinator.cpp) that are sent once
// for each lost checkpoint. With other reasons the checkpoint is tried again.
bool means_lost_checkpoint(const std::string& reason) {
    return reason == "checkpoint_given_up" || reason == "checkpoint_replaced" || reason == "too_many_files" ||
           reason == "metrics_too_large" || reason == "ranks_ended";
}

AttemptId id_of(const Cluster& cluster, const protocol::AttemptRef& ref) {
    if (const Attempt* attempt = find_attempt(cluster, ref)) return attempt->id;
    return {RunId{ref.run}, ref.number};
}

struct ToEvent {
    const Cluster& cluster;
    const NodeId& node;
    const Time now;
    using Answer = std::optional<Event>;

    Answer operator()(const protocol::Prepared& news) const {
        NodePrepared event{.attempt = id_of(cluster, news.attempt),
                           .incarnation = news.attempt.incarnation,
                           .node = node,
                           .claimed_number = news.claimed ? news.attempt.number : 0,
                           .from = news.from,
                           .master_address = news.master_address,
                           .master_port = news.master_port,
                           .earlier = {}};
        for (const protocol::EarlierCheckpoint& checkpoint : news.earlier)
            event.earlier.push_back(
                {.run = event.attempt.run,
                 .directory = checkpoint.directory,
                 .attempt = checkpoint.attempt,
                 .sequence = checkpoint.report,
                 .world_size = checkpoint.world_size,
                 .bytes = checkpoint.bytes,
                 .metrics = numbers_of(checkpoint.metrics_json, score_of(cluster, RunId{news.attempt.run})),
                 .committed = {},
                 .uploaded_in = {},
                 .committed_wall_ms = checkpoint.wall_ms,
                 .deleting = false,
                 .validating = false,
                 .earlier = true,
                 .spared = !checkpoint.counts});
        return event;
    }
    Answer operator()(const protocol::PrepareFailed& news) const {
        return NodePrepareFailed{.attempt = id_of(cluster, news.attempt),
                                 .incarnation = news.attempt.incarnation,
                                 .node = node,
                                 .why = cut_text(news.why, rtrain::limits::cause_bytes_of_older),
                                 .permanent = news.permanent};
    }
    Answer operator()(const protocol::Started& news) const {
        return WorkerStarted{id_of(cluster, news.attempt), Rank{news.rank}, news.pid};
    }
    Answer operator()(const protocol::Exited& news) const {
        const AttemptId id = id_of(cluster, news.attempt);
        WorkerExited event{id, Rank{news.rank}, news.cause, news.exit_wall_us};
        const auto run = cluster.runs.find(id.run);
        const auto attempt = cluster.attempts.find(id);
        const bool known = run != cluster.runs.end() && attempt != cluster.attempts.end();
        // The event is stored too, so its text is cut to the size that the record allows.
        event.cause.detail =
            cut_text(std::move(event.cause.detail),
                     known ? cause_bytes_of(run->second, attempt->second, now) : rtrain::limits::note_bytes);
        return event;
    }
    Answer operator()(const protocol::Emptied& news) const { return NodeEmptied{id_of(cluster, news.attempt), node}; }
    Answer operator()(const protocol::Reported&) const { return std::nullopt; }
    Answer operator()(const protocol::Committed& news) const {
        return CheckpointCommitted{.attempt = id_of(cluster, news.attempt),
                                   .directory = news.directory,
                                   .world_size = news.world_size,
                                   .bytes = news.bytes,
                                   .metrics = numbers_of(news.metrics_json, score_of(cluster, RunId{news.attempt.run})),
                                   .wall_ms = news.wall_ms,
                                   .answers = news.answers ? std::optional(Time{*news.answers}) : std::nullopt,
                                   .uploaded_in = took(news.upload_ms)};
    }
    Answer operator()(const protocol::Deleted& news) const {
        return CheckpointDeleted{RunId{news.run}, news.directory};
    }
    Answer operator()(const protocol::Notice& news) const {
        if (!means_lost_checkpoint(news.reason) || find_attempt(cluster, news.attempt) == nullptr) return std::nullopt;
        return CheckpointLost{.attempt = id_of(cluster, news.attempt),
                              .why = cut_text(news.text, rtrain::limits::note_bytes)};
    }
};

}  // namespace

const Attempt* find_attempt(const Cluster& cluster, const protocol::AttemptRef& ref) {
    const auto first = cluster.attempts.lower_bound({RunId{ref.run}, 0});
    if (ref.incarnation != 0)  // newest attempts are searched first, since a run may have thousands
        for (auto at = cluster.attempts.upper_bound({RunId{ref.run}, ~0u}); at != first;)
            if ((--at)->second.incarnation == ref.incarnation) return &at->second;
    const auto entry = cluster.attempts.find({RunId{ref.run}, ref.number});
    if (entry == cluster.attempts.end() || ref.incarnation != 0) return nullptr;
    return &entry->second;
}

protocol::AttemptRef reference(const Attempt& attempt) {
    return {attempt.id.run.value, attempt.incarnation, attempt.id.number};
}

std::optional<Event> event_of(const Cluster& cluster, const NodeId& node, Time now, const protocol::News& news) {
    return std::visit(ToEvent{cluster, node, now}, news.what);
}

Event registered(const Cluster& cluster, const NodeId& node, const protocol::Register& registration,
                 const std::string& far_address) {
    NodeRegistered event{.node = node,
                         .address = registration.address.empty() ? far_address : registration.address,
                         .port = registration.port,
                         .labels = registration.labels,
                         .total = registration.total,
                         .gpus = registration.gpus,
                         .held = {},
                         .leaves = registration.leaving.has_value()};
    for (const protocol::AttemptRef& ref : registration.held) event.held.push_back(id_of(cluster, ref));
    return event;
}

}  // namespace rtrain::head
