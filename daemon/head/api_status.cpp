// The head itself: alive, in numbers, described, backed up, stopped.
#include <filesystem>

#include "daemon/head/api.hpp"
#include "daemon/head/view_json.hpp"

namespace rtrain::head {
namespace {

struct Totals {
    Sums total, free;
    Amount gpus_total, gpus_free;
};

Totals totals_of(const Cluster& cluster) {
    Totals sum;
    Ledger made;
    for (const NodeView& view : in_step(cluster, made).nodes()) {
        if (view.state == NodeState::lost) continue;
        add(sum.total, view.total);
        add(sum.free, view.free);
        for (const Amount one : view.gpus_free) sum.gpus_free = sum.gpus_free + one;
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
    for (const auto& [id, node] : cluster.nodes) ++counts[node.state];
    return counts;
}

double whole(Amount amount) { return static_cast<double>(amount.ticks) / Amount::per_unit; }

// The caller's own token. A run's token has no date: it ends with its run.
json own_token(const Ask& ask) {
    const auto row = ask.head.tokens.row(ask.caller.token_id);
    return {{"id", row ? json(row->id) : json()},
            {"role", to_text(ask.caller.role)},
            {"user", ask.caller.user},
            {"expires", row ? wall_json(row->expires_wall_ms) : json()}};
}

}  // namespace

void get_health(Ask& ask) { reply_json(ask, 200, {{"status", "ok"}, {"version", RTRAIN_VERSION}}); }

void get_status(Ask& ask) {
    const Head& head = ask.head;
    const Totals sum = totals_of(head.cluster);
    const Sum cpus = amount_of(sum.total, cpu_key), cpus_free = amount_of(sum.free, cpu_key);
    reply_json(ask, 200,
               {{"cluster_id", head.cluster.meta.cluster_id},
                {"name", head.options.name},
                {"version", RTRAIN_VERSION},
                {"started", wall_json(head.started_wall_ms)},
                {"now", wall_json(wall_ms())},
                {"address", head.options.host + ":" + std::to_string(head.server->port())},
                {"nodes", by_state(node_states(head.cluster))},
                {"runs", by_state(head.names.in_states())},
                {"gpus", {{"total", whole(sum.gpus_total)}, {"allocated", whole(sum.gpus_total - sum.gpus_free)}}},
                {"cpus", {{"total", to_text(cpus)}, {"allocated", to_text(cpus - cpus_free)}}},
                {"token", own_token(ask)},
                {"storage_root", head.options.storage_root},
                {"storage_warning", head.storage_warning.empty() ? json() : json(head.storage_warning)}});
}

void get_openapi(Ask& ask) { reply(ask, 200, openapi()); }

void post_backup(Ask& ask) {
    const auto body = body_of(ask);
    if (!body) return refuse(ask, body.error());
    const json file = body->value("file", json());
    if (!file.is_string() || !file.get<std::string>().starts_with('/'))
        return refuse(
            ask, {ErrorCode::usage, "file is an absolute path on the head's machine", "rtrain head backup /path/file"});
    const std::string to = file.get<std::string>(), from = ask.head.options.data_dir;
    on_pool(
        ask, [to, from] { return state::SqliteJournal::backup(from, to); },
        [to](Ask& kept, const Status& saved) {
            if (!saved) return refuse(kept, saved.error());
            std::error_code unknown;
            reply_json(kept, 200, {{"file", to}, {"bytes", std::filesystem::file_size(to, unknown)}});
        });
}

void post_head_stop(Ask& ask) {
    reply_json(ask, 202, {{"status", "stopping"}});
    ask.head.loop.after(100, [&head = ask.head] { head.loop.stop(); });  // the answer goes out first
}

}  // namespace rtrain::head
