// News become events; registrations too. Orders are in orders.cpp.
#include "daemon/head/words.hpp"

#include <limits>
#include <nlohmann/json.hpp>

namespace rtrain::head {
namespace {

using nlohmann::json;

// metrics["a/b"], else metrics["a"]["b"]; null: there is none.
const json* nested(const json& metrics, const std::string& name) {
    if (!metrics.is_object()) return nullptr;
    if (const auto whole = metrics.find(name); whole != metrics.end()) return &*whole;
    for (auto slash = name.find('/'); slash != name.npos; slash = name.find('/', slash + 1))
        if (const auto inner = metrics.find(name.substr(0, slash)); inner != metrics.end())
            if (const json* found = nested(*inner, name.substr(slash + 1))) return found;
    return nullptr;
}

bool not_finite(const json& value) {  // as reports write it
    return value == "NaN" || value == "Infinity" || value == "-Infinity";
}

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
        return NodePrepared{.attempt = id_of(cluster, said.attempt),
                            .incarnation = said.attempt.incarnation,
                            .node = node,
                            .claimed_number = said.claimed ? said.attempt.number : 0,
                            .from = said.from,
                            .master_address = said.master_address,
                            .master_port = said.master_port};
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

std::map<std::string, double> numbers_of(const std::string& metrics_json, const std::string& score) {
    std::map<std::string, double> out;
    const json metrics = json::parse(metrics_json, nullptr, false);
    if (!metrics.is_object()) return out;
    for (const auto& [key, value] : metrics.items())
        if (value.is_number()) out[key] = value.get<double>();
    const json* found = score.empty() ? nullptr : nested(metrics, score);
    if (found != nullptr && found->is_number()) out[score] = found->get<double>();
    if (found != nullptr && not_finite(*found)) out[score] = std::numeric_limits<double>::quiet_NaN();
    return out;
}

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
