// See news.hpp.
#include "daemon/head/events/news.hpp"

#include "daemon/protocol/metric_numbers.hpp"

namespace rtrain::head {
namespace {

using protocol::numbers_of;

const std::string& score_of(const Cluster& cluster, RunId run) {
    static const std::string none;
    const auto found = cluster.runs.find(run);
    return found == cluster.runs.end() ? none : found->second.spec.retention.score_attribute;
}

AttemptId id_of(const Cluster& cluster, const protocol::AttemptRef& ref) {
    if (const Attempt* attempt = find_attempt(cluster, ref)) return attempt->id;
    return {RunId{ref.run}, ref.number};
}

struct ToEvent {
    const Cluster& cluster;
    const NodeId& node;
    using Answer = std::optional<Event>;

    Answer operator()(const protocol::Prepared& said) const {
        NodePrepared event{.attempt = id_of(cluster, said.attempt),
                           .incarnation = said.attempt.incarnation,
                           .node = node,
                           .claimed_number = said.claimed ? said.attempt.number : 0,
                           .from = said.from,
                           .master_address = said.master_address,
                           .master_port = said.master_port,
                           .earlier = {}};
        for (const protocol::EarlierCheckpoint& one : said.earlier)
            event.earlier.push_back(
                {.run = event.attempt.run,
                 .directory = one.directory,
                 .attempt = one.attempt,
                 .sequence = one.report,
                 .world_size = one.world_size,
                 .bytes = one.bytes,
                 .metrics = numbers_of(one.metrics_json, score_of(cluster, RunId{said.attempt.run})),
                 .committed = {},
                 .committed_wall_ms = one.wall_ms,
                 .deleting = false,
                 .validating = false,
                 .earlier = true,
                 .spared = !one.counts});
        return event;
    }
    Answer operator()(const protocol::PrepareFailed& said) const {
        return NodePrepareFailed{.attempt = id_of(cluster, said.attempt),
                                 .incarnation = said.attempt.incarnation,
                                 .node = node,
                                 .why = said.why,
                                 .permanent = said.permanent};
    }
    Answer operator()(const protocol::Started& said) const {
        return WorkerStarted{id_of(cluster, said.attempt), Rank{said.rank}, said.pid};
    }
    Answer operator()(const protocol::Exited& said) const {
        return WorkerExited{id_of(cluster, said.attempt), Rank{said.rank}, said.cause, said.exit_wall_us};
    }
    Answer operator()(const protocol::Emptied& said) const { return NodeEmptied{id_of(cluster, said.attempt), node}; }
    Answer operator()(const protocol::Reported&) const { return std::nullopt; }
    Answer operator()(const protocol::Committed& said) const {
        return CheckpointCommitted{.attempt = id_of(cluster, said.attempt),
                                   .directory = said.directory,
                                   .world_size = said.world_size,
                                   .bytes = said.bytes,
                                   .metrics = numbers_of(said.metrics_json, score_of(cluster, RunId{said.attempt.run})),
                                   .wall_ms = said.wall_ms,
                                   .answers = said.answers ? std::optional(Time{*said.answers}) : std::nullopt};
    }
    Answer operator()(const protocol::Deleted& said) const {
        return CheckpointDeleted{RunId{said.run}, said.directory};
    }
    Answer operator()(const protocol::Notice&) const { return std::nullopt; }
};

}  // namespace

const Attempt* find_attempt(const Cluster& cluster, const protocol::AttemptRef& ref) {
    const AttemptId first{RunId{ref.run}, 0}, last{RunId{ref.run}, ~0u};
    if (ref.incarnation != 0)
        for (auto it = cluster.attempts.lower_bound(first); it != cluster.attempts.end() && !(last < it->first); ++it)
            if (it->second.incarnation == ref.incarnation) return &it->second;
    const auto found = cluster.attempts.find({RunId{ref.run}, ref.number});
    if (found == cluster.attempts.end() || ref.incarnation != 0) return nullptr;
    return &found->second;
}

protocol::AttemptRef reference(const Attempt& attempt) {
    return {attempt.id.run.value, attempt.incarnation, attempt.id.number};
}

std::optional<Event> event_of(const Cluster& cluster, const NodeId& node, const protocol::News& news) {
    return std::visit(ToEvent{cluster, node}, news.what);
}

Event registered(const Cluster& cluster, const NodeId& node, const protocol::Register& said,
                 const std::string& far_address) {
    NodeRegistered event{.node = node,
                         .address = said.address.empty() ? far_address : said.address,
                         .port = said.port,
                         .labels = said.labels,
                         .total = said.total,
                         .gpus = said.gpus,
                         .held = {}};
    for (const protocol::AttemptRef& ref : said.held) event.held.push_back(id_of(cluster, ref));
    return event;
}

}  // namespace rtrain::head
