// Answers what each rank of a run's live attempt uses and waits for, by the last heartbeat of its node.
#include <map>
#include <set>

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/events/news.hpp"
#include "daemon/head/history/usage.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/head/sessions/sessions.hpp"

namespace rtrain::head {
namespace {

json seconds_or_null(std::int64_t ms) { return ms < 0 ? json() : json(static_cast<double>(ms) / 1e3); }

struct Heard {
    const protocol::WorkerHeartbeat* worker = nullptr;
    const std::vector<protocol::GpuHeartbeat>* gpus = nullptr;  // all GPUs of the rank's node
};

void add_gpus(json& out, const Worker& worker, const std::vector<protocol::GpuHeartbeat>& gpus) {
    std::vector<std::uint32_t> own;
    for (const GpuShare& share : worker.seat.gpus) own.push_back(share.device);
    const GpuUse use = gpu_use(gpus, own);
    if (use.utilization_ratio) out["gpu_utilization_ratio"] = *use.utilization_ratio;
    if (use.memory_bytes) out["gpu_memory_bytes"] = *use.memory_bytes;
}

json rank_json(const Attempt& attempt, std::uint32_t rank, const Heard& heard) {
    const protocol::WorkerHeartbeat* const heartbeat = heard.worker;
    json out = {{"rank", rank}, {"node", attempt.workers[rank].seat.node.value}, {"attempt", attempt.id.number}};
    for (const char* name :
         {"memory_bytes", "cpu_seconds", "data_wait_seconds", "interval_ms", "heartbeat_age_ms", "silent_ms"})
        out[name] = json();
    if (!heartbeat) return out;
    out["memory_bytes"] = heartbeat->resident_bytes;
    out["cpu_seconds"] = seconds_or_null(heartbeat->cpu_ms);
    out["data_wait_seconds"] = seconds_or_null(heartbeat->data_wait_ms);
    if (heartbeat->interval_ms > 0) out["interval_ms"] = heartbeat->interval_ms;
    if (heartbeat->heartbeat_age_ms >= 0) out["heartbeat_age_ms"] = heartbeat->heartbeat_age_ms;
    out["silent_ms"] = heartbeat->silent_ms;
    add_gpus(out, attempt.workers[rank], *heard.gpus);
    return out;
}

using Heartbeats = std::map<std::uint32_t, Heard>;  // key: the rank

// Returns what the heartbeats of nodes contain about the attempt's ranks. A node is believed only about ranks that run
// on it.
Heartbeats heartbeats_of(const View& view, const Sessions& sessions, const Attempt& attempt) {
    Heartbeats out;
    std::set<std::string> nodes;
    for (const Worker& worker : attempt.workers) nodes.insert(worker.seat.node.value);
    for (const std::string& node : nodes) {
        const NodeSeen* seen = sessions.seen(node);
        if (!seen) continue;
        for (const protocol::WorkerHeartbeat& worker : seen->heartbeat.workers)
            if (worker.rank < attempt.workers.size() && attempt.workers[worker.rank].seat.node.value == node &&
                find_attempt(view.cluster, worker.attempt) == &attempt)
                out[worker.rank] = {.worker = &worker, .gpus = &seen->heartbeat.gpus};
    }
    return out;
}

}  // namespace

void get_ranks(Exchange& exchange, const Sessions& sessions) {
    with_run(exchange, [&](const Run& run) {
        json items = json::array();
        const auto attempts = attempts_of(exchange.view.cluster, run.id);
        if (!attempts.empty() && !terminal(attempts.back()->state)) {
            const Attempt& live = *attempts.back();
            const Heartbeats heartbeats = heartbeats_of(exchange.view, sessions, live);
            for (std::uint32_t rank = 0; rank < live.workers.size(); ++rank) {
                const auto heartbeat = heartbeats.find(rank);
                items.push_back(rank_json(live, rank, heartbeat == heartbeats.end() ? Heard{} : heartbeat->second));
            }
        }
        reply_json(exchange, 200, {{"items", std::move(items)}, {"next_cursor", json()}});
    });
}

}  // namespace rtrain::head
