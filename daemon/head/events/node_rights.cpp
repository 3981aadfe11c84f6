// Each kind of message has an overload here, so that a new kind does not compile without a rule.
#include "daemon/head/events/node_rights.hpp"

#include <algorithm>
#include <string_view>

#include "daemon/head/events/news.hpp"

namespace rtrain::head {
namespace {

using Objection = std::optional<std::string>;

// Agents keep logs and last checkpoints for two weeks (pending_deliveries.cpp). One day is added for clock differences.
constexpr Duration delivery_time{15LL * 24 * 3'600'000};
constexpr const char* no_name = ": its checkpoint does not name a directory of the run";
// the most bytes of a checkpoint's metrics; an honest agent sends at most 32 numbers and the score
constexpr std::size_t earlier_bytes_most = 16 << 10;
constexpr std::string_view probe_prefix = ".rtrain-probe-";
// a bound far beyond the number of attempts in any run's directory
constexpr std::uint32_t attempt_numbers = 1'000'000;

bool none_or_of_run(std::string_view directory) {
    return directory.empty() || protocol::is_checkpoint_directory(directory);
}

bool placed_on(const Attempt& attempt, const NodeId& node) {
    return std::any_of(attempt.workers.begin(), attempt.workers.end(),
                       [&](const Worker& worker) { return worker.seat.node == node; });
}

struct Judge {
    const Cluster& cluster;
    const NodeId& node;

    bool removed(std::uint64_t run) const { return !cluster.runs.contains(RunId{run}); }

    std::string named(const protocol::AttemptRef& ref) const {
        return "run " + run_id_text(cluster.meta.cluster_id, RunId{ref.run}) + ", attempt " +
               std::to_string(ref.number);
    }
    std::string unknown(const protocol::AttemptRef& ref) const { return named(ref) + ": there is no such attempt"; }

    // Allows the message from any node of the attempt.
    Objection of_node(const protocol::AttemptRef& ref) const {
        if (removed(ref.run)) return std::nullopt;
        const Attempt* attempt = find_attempt(cluster, ref);
        if (attempt == nullptr) return unknown(ref);
        if (!placed_on(*attempt, node)) return named(ref) + " is not on it";
        return std::nullopt;
    }
    // Allows the message only from the node of this rank.
    Objection of_rank(const protocol::AttemptRef& ref, std::uint32_t rank) const {
        if (removed(ref.run)) return std::nullopt;
        const Attempt* attempt = find_attempt(cluster, ref);
        if (attempt == nullptr) return unknown(ref);
        const std::string what = named(ref) + ", rank " + std::to_string(rank);
        if (rank >= attempt->workers.size()) return what + ": there is no such rank";
        const NodeId& own = attempt->workers[rank].seat.node;
        if (own != node) return what + " is on " + own.value;
        return std::nullopt;
    }
    // Returns true if this node had any attempt of the run.
    bool knows(RunId run) const {
        for (auto at = cluster.attempts.lower_bound({run, 0}); at != cluster.attempts.end() && at->first.run == run;
             ++at)
            if (placed_on(at->second, node)) return true;
        return false;
    }
    bool removing_any(RunId run) const {
        for (auto at = cluster.checkpoints.lower_bound({.run = run, .directory = {}});
             at != cluster.checkpoints.end() && at->first.run == run; ++at)
            if (at->second.deleting) return true;
        return false;
    }

    // ---- messages ------------------------------------------------------------------------------------------------
    Objection operator()(const protocol::Hello&) const { return std::nullopt; }  // Sessions checks the name in Hello
    Objection operator()(const protocol::Register&) const {
        return std::nullopt;
    }  // a node may report itself; the core checks `held`
    Objection operator()(const protocol::NewsBatch&) const { return std::nullopt; }
    // The answer to a request of the head; Sessions checks the request's id.
    Objection operator()(const protocol::Cleared&) const { return std::nullopt; }
    Objection operator()(const protocol::Leaving&) const { return std::nullopt; }  // a node may report itself
    // The answer to a request of the head; Leases::dialled checks the request's id.
    Objection operator()(const protocol::PeerDialled&) const { return std::nullopt; }
    Objection operator()(const protocol::News& news) const { return std::visit(*this, news.what); }
    Objection operator()(const protocol::Heartbeat& heartbeat) const {
        for (const protocol::WorkerHeartbeat& worker : heartbeat.workers)
            if (find_attempt(cluster, worker.attempt) != nullptr)  // entries about other attempts are ignored
                if (auto why = of_rank(worker.attempt, worker.rank)) return why;
        return std::nullopt;
    }
    Objection operator()(const protocol::LogChunk& chunk) const { return of_rank(chunk.attempt, chunk.rank); }

    // ---- news ----------------------------------------------------------------------------------------------------
    Objection operator()(const protocol::Prepared& news) const {
        if (removed(news.attempt.run) || find_attempt(cluster, news.attempt) == nullptr)
            return std::nullopt;  // the node gets the order to end that preparation
        if (!news.claimed) return of_node(news.attempt);
        if (!none_or_of_run(news.from)) return named(news.attempt) + no_name;
        if (news.attempt.number > attempt_numbers) return named(news.attempt) + ": a number that no run comes to";
        if (news.earlier.size() > protocol::earlier_most)
            return named(news.attempt) + ": too many checkpoints of before";
        for (const protocol::EarlierCheckpoint& checkpoint : news.earlier)
            if (!protocol::is_checkpoint_directory(checkpoint.directory))
                return named(news.attempt) + no_name;
            else if (checkpoint.metrics_json.size() > earlier_bytes_most)
                return named(news.attempt) + ": too long metrics of a checkpoint of before";
        return of_rank(news.attempt, 0);
    }
    Objection operator()(const protocol::PrepareFailed& news) const { return of_node(news.attempt); }
    Objection operator()(const protocol::Started& news) const { return of_rank(news.attempt, news.rank); }
    Objection operator()(const protocol::Exited& news) const { return of_rank(news.attempt, news.rank); }
    Objection operator()(const protocol::Emptied& news) const { return of_node(news.attempt); }
    // Only the coordinator, which is the agent of rank 0's node, reports; it reports all ranks.
    Objection operator()(const protocol::Reported& news) const {
        if (auto why = of_rank(news.attempt, 0)) return why;
        if (!none_or_of_run(news.checkpoint)) return named(news.attempt) + no_name;
        const Attempt* attempt = find_attempt(cluster, news.attempt);
        if (attempt && !news.metrics_json.empty() && news.metrics_json.rbegin()->first >= attempt->workers.size())
            return named(news.attempt) + ": metrics of a rank that it does not have";
        return std::nullopt;
    }
    Objection operator()(const protocol::Committed& news) const {
        if (!none_or_of_run(news.directory)) return named(news.attempt) + no_name;
        return of_rank(news.attempt, 0);
    }
    Objection operator()(const protocol::Deleted& news) const {
        const RunId run{news.run};
        const auto known = cluster.checkpoints.find({.run = run, .directory = news.directory});
        if (known == cluster.checkpoints.end() || known->second.deleting) return std::nullopt;
        // The message is late or wrong. It has no effect, since the core erases no checkpoint that is kept.
        if (knows(run)) return std::nullopt;
        return "run " + run_id_text(cluster.meta.cluster_id, run) +
               ": the checkpoint is not to be removed, and nothing of the run was ever on it";
    }
    Objection operator()(const protocol::Notice& news) const {
        if (news.attempt.incarnation != 0 || news.attempt.number != 0) return of_node(news.attempt);
        const RunId run{news.attempt.run};
        if (removed(news.attempt.run) || knows(run) || removing_any(run)) return std::nullopt;
        return "run " + run_id_text(cluster.meta.cluster_id, run) + ": nothing of it was ever on it";
    }
};

bool in_delivery(const Attempt& attempt, Time now) {
    return !terminal(attempt.state) || now < attempt.ended_at + delivery_time;
}

struct NamesUnknown {
    const Cluster& cluster;

    bool unknown(const protocol::AttemptRef& ref) const {
        return cluster.runs.contains(RunId{ref.run}) && find_attempt(cluster, ref) == nullptr;
    }
    bool operator()(const protocol::News& news) const { return std::visit(*this, news.what); }
    template <class Message>
    bool operator()(const Message& message) const {
        if constexpr (requires { message.attempt; }) return unknown(message.attempt);
        return false;
    }
};

bool on_cluster(const Run& run) { return run.storage_path.empty() || run.storage_path.starts_with("cluster://"); }

// Returns the newest of several runs that have used one directory (--resume). Older runs of the same user also write to
// it.
const Run* owner_of(const Cluster& cluster, const std::set<RunId>& named) {
    const Run* owner = nullptr;
    for (const RunId id : named)
        if (const auto entry = cluster.runs.find(id); entry != cluster.runs.end() && on_cluster(entry->second))
            owner = &entry->second;
    return owner;
}

// Returns true if `path` is `top` or below it.
bool beneath(std::string_view path, std::string_view top) {
    return path.starts_with(top) && (path.size() == top.size() || path[top.size()] == '/');
}

bool removes_there(const Cluster& cluster, RunId run, std::string_view below, Touch touch) {
    for (auto at = cluster.checkpoints.lower_bound({.run = run, .directory = {}});
         at != cluster.checkpoints.end() && at->first.run == run; ++at)
        if (at->second.deleting &&
            (beneath(below, at->first.directory) ||
             (touch == Touch::read && (below == "attempts" || below == "names/" + at->first.directory))))
            return true;
    return false;
}

}  // namespace

std::optional<std::string> objection(const Cluster& cluster, const NodeId& node, const protocol::FromAgent& message) {
    return std::visit(Judge{cluster, node}, message);
}

std::optional<std::string> objection(const Cluster& cluster, const NodeId& node, const protocol::News& news) {
    return Judge{cluster, node}(news);
}

bool of_unknown_attempt(const Cluster& cluster, const protocol::FromAgent& message) {
    return std::visit(NamesUnknown{cluster}, message);
}

bool of_unknown_attempt(const Cluster& cluster, const protocol::News& news) { return NamesUnknown{cluster}(news); }

std::string run_named_in(const std::string& path, const NodeId& node) {
    const std::string suffix = "-" + node.value;
    std::string top = path.substr(0, path.find('/'));
    if (!top.starts_with(probe_prefix) || !top.ends_with(suffix) || top.size() < probe_prefix.size() + suffix.size())
        return top;
    return top.substr(probe_prefix.size(), top.size() - probe_prefix.size() - suffix.size());
}

bool reaches_file(const Cluster& cluster, const std::set<RunId>& named, const NodeId& node, const std::string& path,
                  Touch touch, Time now) {
    const Run* owner = owner_of(cluster, named);
    if (owner == nullptr) return false;
    const bool probe = path == std::string(probe_prefix) + owner->name + "-" + node.value;
    if (!probe && !beneath(path, owner->name)) return false;
    for (const RunId id : named) {
        const auto run = cluster.runs.find(id);
        if (run == cluster.runs.end() || !on_cluster(run->second) || run->second.user != owner->user) continue;
        for (auto at = cluster.attempts.lower_bound({id, 0}); at != cluster.attempts.end() && at->first.run == id; ++at)
            if (placed_on(at->second, node) && in_delivery(at->second, now)) return true;
        if (path.size() > owner->name.size() && !probe && deletes_for(cluster, run->second) == node &&
            removes_there(cluster, id, std::string_view(path).substr(owner->name.size() + 1), touch))
            return true;
    }
    return false;
}

}  // namespace rtrain::head
