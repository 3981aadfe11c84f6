// The head itself: alive, in numbers, described, backed up, stopped.
#include <filesystem>

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/head/base/facts.hpp"
#include "daemon/head/base/options.hpp"
#include "daemon/head/files/backup_place.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "scheduler/model/derived.hpp"

namespace rtrain::head {
namespace {

struct Totals {
    Sums total, free;
    Amount gpus_total, gpus_free;
};

Totals totals_of(const Cluster& cluster) {
    Totals sum;
    ClusterIndex scratch;
    for (const NodeView& view : in_step(cluster, scratch).nodes()) {
        if (view.state == NodeState::lost) continue;
        add(sum.total, view.total);
        add(sum.free, view.free);
        for (const Amount free_amount : view.gpus_free) sum.gpus_free = sum.gpus_free + free_amount;
        sum.gpus_total = sum.gpus_total + units(static_cast<std::int64_t>(view.gpus_free.size()));
    }
    return sum;
}

template <class State>
json by_state(const std::map<State, std::size_t>& counts) {
    json out = json::object();
    for (const auto& [state, count] : counts) out[to_text(state)] = count;
    return out;
}

std::map<NodeState, std::size_t> node_states(const Cluster& cluster) {
    std::map<NodeState, std::size_t> counts;
    for (const auto& [id, node] : cluster.nodes) ++counts[shown_state(node)];
    return counts;
}

double whole(Amount amount) { return static_cast<double>(amount.ticks) / Amount::per_unit; }

// The caller's own token. A run's token has no date: it ends with its run.
json own_token(const Exchange& exchange, const TokenBook& tokens) {
    const auto row = tokens.row(exchange.caller.token_id);
    return {{"id", row ? json(row->id) : json()},
            {"role", to_text(exchange.caller.role)},
            {"user", exchange.caller.user},
            {"expires", row ? wall_json(row->expires_wall_ms) : json()}};
}

}  // namespace

void get_health(Exchange& exchange, const HeadFacts& facts) {
    if (!facts.ready)
        return refuse(exchange, {ErrorCode::unreachable, "the head is starting", "try again in a moment"});
    reply_json(exchange, 200, {{"status", "ok"}, {"version", RTRAIN_VERSION}});
}

void get_status(Exchange& exchange, const HeadOptions& options, const HeadFacts& facts, const TokenBook& tokens) {
    const View& view = exchange.view;
    const Totals sum = totals_of(view.cluster);
    const Sum cpus = amount_of(sum.total, cpu_key), cpus_free = amount_of(sum.free, cpu_key);
    reply_json(exchange, 200,
               {{"cluster_id", view.cluster.meta.cluster_id},
                {"name", options.name},
                {"version", RTRAIN_VERSION},
                {"started", wall_json(facts.started_wall_ms)},
                {"now", wall_json(wall_ms())},
                {"address", options.host + ":" + std::to_string(facts.port)},
                {"nodes", by_state(node_states(view.cluster))},
                {"runs", by_state(view.names.in_states())},
                {"gpus", {{"total", whole(sum.gpus_total)}, {"allocated", whole(sum.gpus_total - sum.gpus_free)}}},
                {"cpus", {{"total", to_text(cpus)}, {"allocated", to_text(cpus - cpus_free)}}},
                {"token", own_token(exchange, tokens)},
                {"storage_root", options.storage_root},
                {"storage_warning", facts.storage_warning.empty() ? json() : json(facts.storage_warning)}});
}

void post_backup(Exchange& exchange, const HeadOptions& options) {
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const json file = body->value("file", json());
    if (!file.is_string() || !file.get<std::string>().starts_with('/'))
        return refuse(exchange, {ErrorCode::usage, "file is an absolute path on the head's machine",
                                 "rtrain head backup /path/file"});
    const std::string to = file.get<std::string>(), from = options.data_dir;
    on_pool(
        exchange,
        [to, from] {
            std::error_code failed;
            const auto place = std::filesystem::weakly_canonical(to, failed).string();
            const auto mounts = read_file("/proc/self/mountinfo");
            if (Status seen = check_backup_place(failed ? to : place, mounts ? *mounts : "", from); !seen) return seen;
            return state::SqliteJournal::backup(from, to);
        },
        [to](Exchange& kept, const Status& saved) {
            if (!saved) return refuse(kept, saved.error());
            std::error_code unknown;
            reply_json(kept, 200, {{"file", to}, {"bytes", std::filesystem::file_size(to, unknown)}});
        });
}

void post_head_stop(Exchange& exchange, const HeadStop& stop) {
    reply_json(exchange, 202, {{"status", "stopping"}});
    exchange.background.after(100, [&stop] { stop.now(); });  // the answer goes out first
}

}  // namespace rtrain::head
