// Handlers about the head itself: health, status, backup, stop.
#include <filesystem>
#include <type_traits>

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/backup/take.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/head/base/facts.hpp"
#include "daemon/head/base/options.hpp"
#include "daemon/head/files/backup_place.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/head/view/cluster_totals.hpp"
#include "scheduler/model/derived.hpp"

namespace rtrain::head {
namespace {

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

json disk_json(const std::optional<DiskSize>& disk) {
    return disk ? json{{"size", disk->whole}, {"free", disk->free}} : json();
}

json health_json(const HeadHealth& health) {
    return {{"memory_bytes", health.memory_bytes ? json(*health.memory_bytes) : json()},
            {"longest_task_seconds", health.longest_task_seconds ? json(*health.longest_task_seconds) : json()},
            {"data_disk", disk_json(health.data_disk)},
            {"storage_disk", disk_json(health.storage_disk)}};
}

double whole(Amount amount) { return static_cast<double>(amount.ticks) / Amount::per_unit; }

// Returns facts about the caller's token. A run's token has no expiry date, since it ends with the run.
json own_token(const Exchange& exchange, const TokenBook& tokens) {
    const auto row = tokens.row(exchange.caller.token_id);
    return {{"id", row ? json(row->id) : json()},
            {"role", to_text(exchange.caller.role)},
            {"user", exchange.caller.user},
            {"expires", row ? wall_json(row->expires_wall_ms) : json()}};
}

// Reads a field of the request's body. If it is missing, the value is false, empty or 0. Fails if the field has another
// type.
template <class Value>
Status take_field(const json& body, const char* name, Value& into) {
    const auto field = body.find(name);
    if (field == body.end()) return Done{};
    const bool fits = std::is_same_v<Value, bool>          ? field->is_boolean()
                      : std::is_same_v<Value, std::string> ? field->is_string()
                                                           : field->is_number_unsigned();
    if (!fits) return Error{ErrorCode::usage, std::string(name) + " is of another type", "docs/http-api.md"};
    into = field->get<Value>();
    return Done{};
}

Result<BackupWish> backup_wish(const json& body, const HeadOptions& options, const HeadFacts& facts) {
    BackupWish wish{.data_dir = options.data_dir,
                    .storage_root = options.storage_root,
                    .to = "",
                    .secret = "",
                    .address = options.host + ":" + std::to_string(facts.port)};
    bool logs = true, files = false;
    const Status taken[] = {take_field(body, "file", wish.to),
                            take_field(body, "passphrase", wish.secret),
                            take_field(body, "logs", logs),
                            take_field(body, "files", files),
                            take_field(body, "incremental", wish.incremental),
                            take_field(body, "keep", wish.keep),
                            take_field(body, "replace", wish.replace)};
    for (const Status& field : taken)
        if (!field) return field.error();
    if (!wish.to.starts_with('/'))
        return Error{ErrorCode::usage, "file is an absolute path on the head's machine",
                     "rtrain head backup /path/file"};
    wish.logs = logs ? RunLogs::with : RunLogs::without;
    wish.files = files ? ClusterFiles::with : ClusterFiles::without;
    return wish;
}

// Makes the backup and returns its path. Without a passphrase the backup contains only the database.
Result<std::string> written_backup(const BackupWish& wish) {
    std::error_code failed;
    const auto place = std::filesystem::weakly_canonical(wish.to, failed).string();
    const auto mounts = read_file("/proc/self/mountinfo");
    if (Status seen = check_backup_place(failed ? wish.to : place, mounts ? *mounts : "", wish.data_dir); !seen)
        return seen.error();
    if (wish.secret.empty()) {
        if (Status copied = state::SqliteJournal::backup(wish.data_dir, wish.to); !copied) return copied.error();
        return wish.to;
    }
    Result<BackupDone> done = take_backup(wish);
    if (!done) return done.error();
    return done->file;
}

}  // namespace

void get_health(Exchange& exchange, const HeadFacts& facts) {
    if (!facts.ready)
        return refuse(exchange, {ErrorCode::unreachable, "the head is starting", "try again in a moment"});
    reply_json(exchange, 200, {{"status", "ok"}, {"version", RTRAIN_VERSION}});
}

void get_status(Exchange& exchange, const HeadOptions& options, const HeadFacts& facts, const TokenBook& tokens) {
    const View& view = exchange.view;
    const ClusterTotals sum = totals_of(view.cluster);
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
                {"health", health_json(facts.health)},
                {"storage_root", options.storage_root},
                {"storage_warning", facts.storage_warning.empty() ? json() : json(facts.storage_warning)}});
}

void post_backup(Exchange& exchange, const HeadOptions& options, const HeadFacts& facts) {
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const auto wish = backup_wish(*body, options, facts);
    if (!wish) return refuse(exchange, wish.error());
    on_pool(
        exchange, [wish = *wish] { return written_backup(wish); },
        [](Exchange& kept, const Result<std::string>& file) {
            if (!file) return refuse(kept, file.error());
            std::error_code unknown;
            reply_json(kept, 200, {{"file", *file}, {"bytes", std::filesystem::file_size(*file, unknown)}});
        });
}

void post_head_stop(Exchange& exchange, const HeadStop& stop) {
    reply_json(exchange, 202, {{"status", "stopping"}});
    exchange.background.after(100, [&stop] { stop.now(); });  // the head stops after the answer has been sent
}

}  // namespace rtrain::head
