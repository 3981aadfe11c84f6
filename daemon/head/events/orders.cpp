// See orders.hpp.
#include "daemon/head/events/orders.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/bucket_secrets.hpp"
#include "base/json_text.hpp"
#include "daemon/head/events/news.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;
using protocol::FromHead;

const Attempt* attempt_of(const Cluster& cluster, AttemptId id, std::uint32_t incarnation) {
    const auto entry = cluster.attempts.find(id);
    if (entry != cluster.attempts.end() && (incarnation == 0 || entry->second.incarnation == incarnation))
        return &entry->second;
    return incarnation == 0 ? nullptr : find_attempt(cluster, {id.run.value, incarnation, 0});
}

// Returns all nodes of an attempt with their ranks. Rank 0's node is first, since ranks are contiguous per node.
std::vector<protocol::PeerNode> peers(const Cluster& cluster, const Attempt& attempt) {
    std::vector<protocol::PeerNode> out;
    std::map<std::string_view, std::size_t> places;
    for (std::uint32_t rank = 0; rank < attempt.workers.size(); ++rank) {
        const NodeId& id = attempt.workers[rank].seat.node;
        const auto [place, fresh] = places.emplace(id.value, out.size());
        if (fresh) {
            const auto node = cluster.nodes.find(id);
            const bool known = node != cluster.nodes.end();
            out.push_back({.node = id.value,
                           .address = known ? node->second.address : "",
                           .port = known ? node->second.port : std::uint16_t{0},
                           .ranks = {}});
        }
        out[place->second].ranks.push_back(rank);
    }
    return out;
}

const Attempt* attempt_before(const Cluster& cluster, AttemptId id) {
    auto at = cluster.attempts.lower_bound(id);
    if (at == cluster.attempts.begin()) return nullptr;
    --at;
    return at->first.run == id.run ? &at->second : nullptr;
}

// Returns the reason of the attempt's end as one word for the training loop: the reason of a request, or a failure.
std::string why_ended(const Attempt& attempt) {
    return attempt.state == AttemptState::stopped && attempt.request ? to_text(attempt.request->reason) : "failure";
}

std::string storage_of(const Run& run) { return run.storage_path.empty() ? "cluster://" : run.storage_path; }

struct ToOrder {
    const Cluster& cluster;
    const OrderFacts& facts;
    using Answer = std::optional<FromHead>;

    const Run* run_of(RunId id) const {
        const auto entry = cluster.runs.find(id);
        return entry == cluster.runs.end() ? nullptr : &entry->second;
    }

    Answer operator()(const PrepareNode& effect) const {
        const Attempt* attempt = attempt_of(cluster, effect.attempt, effect.incarnation);
        const Run* run = run_of(effect.attempt.run);
        // A later event of the same commit may have ended the attempt. Then the node must not prepare it: it would
        // claim a number that is no longer valid.
        if (!attempt || !run || terminal(attempt->state) || attempt->state == AttemptState::stopping)
            return std::nullopt;
        const Attempt* before = attempt_before(cluster, attempt->id);
        return protocol::Prepare{.attempt = reference(*attempt),
                                 .cluster_id = cluster.meta.cluster_id,
                                 .run_id = run_id_text(cluster.meta.cluster_id, run->id),
                                 .run_name = run->name,
                                 .user = run->user,
                                 .storage_path = storage_of(*run),
                                 .job_json = run->job_json,
                                 .claim = effect.claim,
                                 .resume = run->resume,
                                 .restore_from = run->restore_from,
                                 .world_size = static_cast<std::uint32_t>(attempt->workers.size()),
                                 .nodes = peers(cluster, *attempt),
                                 .code_sha256 = facts.code_sha256,
                                 .attempts_before = attempt->id.number - std::min(attempt->id.number, 1u),
                                 .workers_before = before ? static_cast<std::uint32_t>(before->workers.size()) : 0,
                                 .ended_before = before ? why_ended(*before) : "",
                                 .array_index = run->array_index,
                                 .array = run->array,
                                 .any_user = false,
                                 .access = storage_access(*run, facts.secrets)};
    }

    Answer operator()(const LaunchWorkers& effect) const {
        const Attempt* attempt = attempt_of(cluster, effect.attempt, 0);
        const Run* run = run_of(effect.attempt.run);
        if (!attempt || !run) return std::nullopt;
        protocol::Launch launch{.attempt = reference(*attempt),
                                .from = attempt->from,
                                .master_address = attempt->master_address,
                                .master_port = attempt->master_port,
                                .node_rank = 0,
                                .workers = {},
                                .secrets = facts.secrets,
                                .token = facts.token,
                                .checkpoint_counter = run->checkpoints};
        for (std::uint32_t rank = 0; rank < attempt->workers.size(); ++rank) {
            const Worker& worker = attempt->workers[rank];
            if (worker.seat.node != effect.node) continue;
            launch.node_rank = worker.node_rank;
            launch.workers.push_back(launched(*run, worker, rank));
        }
        return launch;
    }

    static protocol::LaunchWorker launched(const Run& run, const Worker& worker, std::uint32_t rank) {
        protocol::LaunchWorker out{.rank = rank, .local_rank = worker.local_rank};
        for (const GpuShare& share : worker.seat.gpus) {
            out.gpus.push_back(share.device);
            out.gpu_ticks.push_back(share.amount.ticks);
        }
        if (rank < run.spec.gang.bundles.size())
            out.cpu_ticks = amount_of(run.spec.gang.bundles[rank].demand, cpu_key).ticks;
        return out;
    }

    Answer operator()(const StopAttempt& effect) const {
        const Attempt* attempt = attempt_of(cluster, effect.attempt, effect.incarnation);
        const protocol::AttemptRef given_up{effect.attempt.run.value, effect.incarnation, effect.attempt.number};
        return protocol::Stop{.attempt = attempt ? reference(*attempt) : given_up,
                              .grace_ms = effect.grace.ms,
                              .why = to_text(effect.why),
                              .end_as = attempt ? to_text(attempt->end_as) : "",
                              .alone = !attempt || is_last(*attempt, effect.node),
                              .at_once = effect.at_once};
    }

    // Returns true if no other node waits for this one: the node is the last one of an attempt that ends, or the
    // attempt is over.
    static bool is_last(const Attempt& attempt, const NodeId& node) {
        if (terminal(attempt.state)) return true;
        return attempt.state == AttemptState::stopping && attempt.nodes_waiting == std::vector<NodeId>{node};
    }

    Answer operator()(const RequestCheckpoint& effect) const {
        const Attempt* attempt = attempt_of(cluster, effect.attempt, 0);
        if (!attempt) return std::nullopt;
        return protocol::RequestCheckpoint{.attempt = reference(*attempt),
                                           .reason = to_text(effect.reason),
                                           .left_ms = effect.left ? effect.left->ms : -1,
                                           .workers = effect.workers,
                                           .asked = effect.asked.ms};
    }

    Answer operator()(const DeleteCheckpoint& effect) const {
        const Run* run = run_of(effect.run);
        if (!run) return std::nullopt;
        return protocol::Delete{.run = run->id.value,
                                .run_name = run->name,
                                .storage_path = storage_of(*run),
                                .directory = effect.directory,
                                .newest_attempt = run->attempts,
                                .user = run->user,
                                .access = storage_access(*run, facts.secrets)};
    }

    Answer operator()(const WriteResult& effect) const {
        const Run* run = run_of(effect.run);
        if (!run) return std::nullopt;
        return protocol::Result_{.run = run->id.value,
                                 .run_name = run->name,
                                 .storage_path = storage_of(*run),
                                 .result_json = facts.result_json,
                                 .user = run->user,
                                 .access = storage_access(*run, facts.secrets)};
    }
};

}  // namespace

bool in_bucket(const Run& run) { return bucket_secrets(run.storage_path) != nullptr; }

// Returns how a run's storage may be accessed. Credentials of the run itself are secrets of its job; related settings
// may be in its env.
protocol::StorageAccess storage_access(const Run& run, const std::map<std::string, std::string>& secrets) {
    protocol::StorageAccess access{.user = run.user, .queue = run.spec.queue};
    const BucketSecrets* kind = bucket_secrets(run.storage_path);
    const json job = kind != nullptr ? parse_json(run.job_json) : json();
    if (!job.is_object()) return access;
    const json names = job.value("secrets", json::array()), env = job.value("env", json::object());
    const auto named = [&](std::string_view name) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    access.own = std::any_of(kind->sets.begin(), kind->sets.end(),
                             [&](const VariableNames& set) { return std::all_of(set.begin(), set.end(), named); });
    if (!access.own || secrets.empty()) return access;
    for (const std::string_view variable : sent_variables(*kind)) {
        const std::string name(variable);
        if (const auto secret = secrets.find(name); secret != secrets.end()) access.secrets[name] = secret->second;
        if (const auto plain = env.find(name); plain != env.end() && plain->is_string())
            access.secrets[name] = plain->get<std::string>();
    }
    return access;
}

NodeId addressee(const Effect& effect) {
    return std::visit([](const auto& alternative) { return alternative.node; }, effect);
}

RunId about(const Effect& effect) {
    return std::visit(
        [](const auto& alternative) {
            if constexpr (requires { alternative.attempt; })
                return alternative.attempt.run;
            else
                return alternative.run;
        },
        effect);
}

std::optional<FromHead> order_of(const Cluster& cluster, const Effect& effect, const OrderFacts& facts) {
    return std::visit(ToOrder{cluster, facts}, effect);
}

bool overtaken(const Cluster& cluster, const Effect& effect) {
    const auto* prepare = std::get_if<PrepareNode>(&effect);
    const auto* launch = std::get_if<LaunchWorkers>(&effect);
    if (!prepare && !launch) return false;
    const Attempt* attempt =
        prepare ? attempt_of(cluster, prepare->attempt, prepare->incarnation) : attempt_of(cluster, launch->attempt, 0);
    return !attempt || attempt->state == AttemptState::stopping || terminal(attempt->state);
}

}  // namespace rtrain::head
