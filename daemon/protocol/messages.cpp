// The wire form of every message: one list of fields each, read and written by fields_json.hpp.
#include "daemon/protocol/messages.hpp"

#include "base/json_depth.hpp"
#include "base/json_text.hpp"
#include "base/relative_path.hpp"
#include "daemon/protocol/fields_json.hpp"

namespace rtrain::protocol {
template <class V>
void fields(V& v, AttemptRef& m) {
    v("run", m.run), v("incarnation", m.incarnation), v("number", m.number);
}
template <class V>
void fields(V& v, Hello& m) {
    v("protocol", m.protocol), v("min_protocol", m.min_protocol), v("node", m.node);
    v("program_version", m.program_version), v("boot_id", m.boot_id);
}
template <class V>
void fields(V& v, Leaving& m) {
    v("why", m.why), v("left_ms", m.left_ms);
}
template <class V>
void fields(V& v, PeerDialled& m) {
    v("id", m.id), v("answered", m.answered);
}
template <class V>
void fields(V& v, DialPeer& m) {
    v("id", m.id), v("node", m.node), v("address", m.address), v("port", m.port), v("patience_ms", m.patience_ms);
}
template <class V>
void fields(V& v, Register& m) {
    v("address", m.address), v("port", m.port), v("labels", m.labels), v("total", m.total), v("gpus", m.gpus);
    v("gpu_model", m.gpu_model), v("held", m.held), v("next_news", m.next_news), v("facts", m.facts);
    v("leaving", m.leaving);
}
template <class V>
void fields(V& v, Traffic& m) {
    v("network_received", m.network_received), v("network_sent", m.network_sent), v("disk_read", m.disk_read);
    v("disk_written", m.disk_written);
}
template <class V>
void fields(V& v, WorkerHeartbeat& m) {
    v("attempt", m.attempt), v("rank", m.rank), v("resident_bytes", m.resident_bytes), v("cpu_ms", m.cpu_ms);
    v("silent_ms", m.silent_ms), v("heartbeat_age_ms", m.heartbeat_age_ms), v("data_wait_ms", m.data_wait_ms);
    v("interval_ms", m.interval_ms);
    v("barrier_wait_ms", m.barrier_wait_ms), v("barrier_waits", m.barrier_waits);
    v("checkpoint_wait_ms", m.checkpoint_wait_ms), v("traffic", m.traffic);
    v("report_wait_ms", m.report_wait_ms);
}
template <class V>
void fields(V& v, GpuHeartbeat& m) {
    v("uuid", m.uuid), v("utilization_percent", m.utilization_percent), v("memory_used", m.memory_used);
    v("memory_total", m.memory_total), v("power_mw", m.power_mw), v("temperature_c", m.temperature_c);
    v("xids", m.xids), v("ecc_corrected", m.ecc_corrected), v("ecc_uncorrected", m.ecc_uncorrected);
    v("foreign_processes", m.foreign_processes), v("foreign_memory", m.foreign_memory);
}
template <class V>
void fields(V& v, DiskHeartbeat& m) {
    v("place", m.place), v("size", m.size), v("free", m.free);
}
template <class V>
void fields(V& v, Heartbeat& m) {
    v("memory_used", m.memory_used), v("memory_total", m.memory_total), v("workers", m.workers), v("gpus", m.gpus);
    v("traffic", m.traffic), v("disks", m.disks), v("cpu_ms", m.cpu_ms), v("full_disk", m.full_disk);
}
template <class V>
void fields(V& v, EarlierCheckpoint& m) {
    v("directory", m.directory), v("metrics_json", m.metrics_json), v("attempt", m.attempt), v("report", m.report);
    v("world_size", m.world_size), v("bytes", m.bytes), v("wall_ms", m.wall_ms), v("counts", m.counts);
}
template <class V>
void fields(V& v, Prepared& m) {
    v("attempt", m.attempt), v("claimed", m.claimed), v("from", m.from), v("master_address", m.master_address);
    v("master_port", m.master_port), v("earlier", m.earlier);
}
template <class V>
void fields(V& v, PrepareFailed& m) {
    v("attempt", m.attempt), v("why", m.why), v("permanent", m.permanent);
}
template <class V>
void fields(V& v, Started& m) {
    v("attempt", m.attempt), v("rank", m.rank), v("pid", m.pid), v("host", m.host);
    v("restore_ms", m.restore_ms);
}
template <class V>
void fields(V& v, ExitCause& m) {
    v("exit_code", m.exit_code), v("signal", m.signal), v("out_of_memory", m.out_of_memory);
    v("stopped_by_us", m.stopped_by_us), v("never_started", m.never_started), v("detail", m.detail);
    v("address_in_use", m.address_in_use);
}
template <class V>
void fields(V& v, Exited& m) {
    v("attempt", m.attempt), v("rank", m.rank), v("cause", m.cause), v("exit_wall_us", m.exit_wall_us);
}
template <class V>
void fields(V& v, Emptied& m) {
    v("attempt", m.attempt);
}
template <class V>
void fields(V& v, Reported& m) {
    v("attempt", m.attempt), v("index", m.index), v("wall_ms", m.wall_ms), v("metrics_json", m.metrics_json);
    v("checkpoint", m.checkpoint);
}
template <class V>
void fields(V& v, Committed& m) {
    v("attempt", m.attempt), v("directory", m.directory), v("metrics_json", m.metrics_json), v("index", m.index);
    v("world_size", m.world_size), v("bytes", m.bytes), v("wall_ms", m.wall_ms), v("blocked_us", m.blocked_us);
    v("upload_ms", m.upload_ms), v("answers", m.answers);
}
template <class V>
void fields(V& v, Deleted& m) {
    v("run", m.run), v("directory", m.directory);
}
template <class V>
void fields(V& v, Notice& m) {
    v("attempt", m.attempt), v("text", m.text), v("reason", m.reason);
}
template <class V>
void fields(V& v, LogChunk& m) {
    v("attempt", m.attempt), v("rank", m.rank), v("stream", m.stream), v("offset", m.offset);
    v("bytes", Bytes{m.bytes}), v("lost", m.lost), v("last", m.last), v("wall_ms", m.wall_ms);
}
template <class V>
void fields(V& v, Welcome& m) {
    v("protocol", m.protocol), v("cluster_id", m.cluster_id), v("heartbeat_ms", m.heartbeat_ms);
    v("node_timeout_ms", m.node_timeout_ms), v("news_seen", m.news_seen);
}
template <class V>
void fields(V& v, Refuse& m) {
    v("message", m.message), v("next", m.next), v("left", m.left);
}
template <class V>
void fields(V& v, NewsAck& m) {
    v("seq", m.seq);
}
template <class V>
void fields(V& v, LogAck& m) {
    v("attempt", m.attempt), v("rank", m.rank), v("stream", m.stream), v("offset", m.offset), v("later", m.later);
}
template <class V>
void fields(V& v, PeerNode& m) {
    v("node", m.node), v("address", m.address), v("port", m.port), v("ranks", m.ranks);
}
template <class V>
void fields(V& v, StorageAccess& m) {
    v("user", m.user), v("queue", m.queue), v("own", m.own), v("secrets", m.secrets);
}
template <class V>
void fields(V& v, Prepare& m) {
    v("attempt", m.attempt), v("cluster_id", m.cluster_id), v("run_id", m.run_id), v("run_name", m.run_name);
    v("user", m.user), v("storage_path", m.storage_path), v("job_json", m.job_json), v("claim", m.claim);
    v("resume", m.resume), v("restore_from", m.restore_from), v("world_size", m.world_size), v("nodes", m.nodes);
    v("code_sha256", m.code_sha256), v("attempts_before", m.attempts_before);
    v("workers_before", m.workers_before), v("ended_before", m.ended_before), v("array_index", m.array_index);
    v("array", m.array), v("any_user", m.any_user), v("access", m.access);
}
template <class V>
void fields(V& v, LaunchWorker& m) {
    v("rank", m.rank), v("local_rank", m.local_rank), v("gpus", m.gpus), v("gpu_ticks", m.gpu_ticks);
    v("cpu_ticks", m.cpu_ticks);
}
template <class V>
void fields(V& v, Launch& m) {
    v("attempt", m.attempt), v("from", m.from), v("master_address", m.master_address), v("master_port", m.master_port);
    v("node_rank", m.node_rank), v("workers", m.workers), v("secrets", m.secrets), v("token", m.token);
    v("checkpoint_counter", m.checkpoint_counter);
}
template <class V>
void fields(V& v, Stop& m) {
    v("attempt", m.attempt), v("grace_ms", m.grace_ms), v("why", m.why), v("end_as", m.end_as);
    v("alone", m.alone), v("at_once", m.at_once);
}
template <class V>
void fields(V& v, RequestCheckpoint& m) {
    v("attempt", m.attempt), v("reason", m.reason), v("left_ms", m.left_ms), v("workers", m.workers);
    v("asked", m.asked);
}
template <class V>
void fields(V& v, Delete& m) {
    v("run", m.run), v("run_name", m.run_name), v("storage_path", m.storage_path), v("directory", m.directory);
    v("newest_attempt", m.newest_attempt), v("user", m.user), v("access", m.access);
}
template <class V>
void fields(V& v, Result_& m) {
    v("run", m.run), v("run_name", m.run_name), v("storage_path", m.storage_path), v("result_json", m.result_json);
    v("user", m.user), v("access", m.access);
}
template <class V>
void fields(V& v, PeerMoved& m) {
    v("node", m.node), v("address", m.address), v("port", m.port);
}
template <class V>
void fields(V& v, RunEnded& m) {
    v("run", m.run);
}
template <class V>
void fields(V& v, Forget& m) {
    v("attempt", m.attempt);
}
template <class V>
void fields(V& v, Revoked& m) {
    v("serials", m.serials);
}
template <class V>
void fields(V& v, Cleared& m) {
    v("id", m.id), v("removed", m.removed), v("error", m.error);
}
template <class V>
void fields(V& v, TakeStacks& m) {
    v("attempt", m.attempt), v("ranks", m.ranks), v("why", m.why);
}
template <class V>
void fields(V& v, Clear& m) {
    v("id", m.id), v("cluster_id", m.cluster_id), v("run_ids", m.run_ids), v("run_name", m.run_name);
    v("storage_path", m.storage_path), v("user", m.user), v("access", m.access);
}
template <class V>
void fields(V& v, GroupJoin& m) {
    v("attempt", m.attempt), v("node", m.node), v("ranks", m.ranks);
}
template <class V>
void fields(V& v, StagedFile& m) {
    v("rank", m.rank), v("path", m.path), v("bytes", m.bytes), v("sha256", m.sha256);
}
template <class V>
void fields(V& v, GroupReport& m) {
    v("index", m.index), v("metrics_json", m.metrics_json), v("checkpoint", m.checkpoint);
    v("directory_name", m.directory_name), v("files", m.files), v("checkpoint_error", m.checkpoint_error);
    v("error_reason", m.error_reason);
    v("sync", m.sync), v("exact", m.exact), v("deeper", m.deeper);
}
template <class V>
void fields(V& v, GroupArrived& m) {
    v("index", m.index), v("ranks", m.ranks), v("ended", m.ended), v("ended_unwatched", m.ended_unwatched);
    v("broadcast", m.broadcast), v("broadcast_ranks", m.broadcast_ranks), v("hopeless", m.hopeless);
}
template <class V>
void fields(V& v, GroupStacks& m) {
    v("ranks", m.ranks), v("why", m.why);
}
template <class V>
void fields(V& v, GroupUploaded& m) {
    v("index", m.index), v("files", m.files), v("error", m.error), v("error_reason", m.error_reason);
}
template <class V>
void fields(V& v, GroupReleased& m) {
    v("index", m.index), v("directory", m.directory), v("skip", m.skip), v("sync", m.sync);
}
template <class V>
void fields(V& v, GroupCommitted& m) {
    v("index", m.index), v("directory", m.directory), v("error", m.error);
}
template <class V>
void fields(V& v, GroupBroadcast& m) {
    v("index", m.index), v("data", Bytes{m.data});
}

namespace {

using NewsItem = decltype(News::what);

// The words of "type" (and, within news, of "kind"), in the order of the variants.
template <class Variant>
constexpr const char* const* names = nullptr;
constexpr const char* agent_names[] = {"hello",      "register", "heartbeat", "news",        "log",
                                       "news_batch", "cleared",  "leaving",   "peer_dialled"};
constexpr const char* head_names[] = {"welcome", "refuse",      "news_ack", "log_ack",   "prepare",    "launch",
                                      "stop",    "delete",      "result",   "forget",    "peer_moved", "ask",
                                      "revoked", "take_stacks", "clear",    "dial_peer", "run_ended"};
constexpr const char* news_names[] = {"prepared", "prepare_failed", "started", "exited", "emptied",
                                      "reported", "committed",      "deleted", "notice"};
constexpr const char* group_names[] = {"join",     "report",    "arrived",   "uploaded",
                                       "released", "committed", "broadcast", "stacks"};
template <>
constexpr const char* const* names<FromAgent> = agent_names;
template <>
constexpr const char* const* names<FromHead> = head_names;
template <>
constexpr const char* const* names<NewsItem> = news_names;
template <>
constexpr const char* const* names<GroupMessage> = group_names;
static_assert(std::size(agent_names) == std::variant_size_v<FromAgent>);
static_assert(std::size(head_names) == std::variant_size_v<FromHead>);
static_assert(std::size(news_names) == std::variant_size_v<NewsItem>);
static_assert(std::size(group_names) == std::variant_size_v<GroupMessage>);

template <class Variant>
void write(Writer& v, const Variant& message, const char* tag);

template <class T>
void contents(Writer& v, const T& message) {
    fields(v, const_cast<T&>(message));
}
void contents(Writer& v, const News& news) {
    v("seq", news.seq);
    write(v, news.what, "kind");
}
void contents(Writer& v, const NewsBatch& batch) {
    v.objects("items", batch.items, [](Writer& inner, const News& news) { contents(inner, news); });
}

template <class Variant>
void write(Writer& v, const Variant& message, const char* tag) {
    v(tag, std::string_view(names<Variant>[message.index()]));
    std::visit([&](const auto& alternative) { contents(v, alternative); }, message);
}

template <class Variant>
std::string text_of(const Variant& message) {
    std::string out;
    Writer v(out);
    write(v, message, "type");
    v.end();
    return out;
}

Error wrong(const std::string& what) {
    return {ErrorCode::invalid, what, "do head and agents run the same version of rtrain?"};
}

template <class Variant>
Result<Variant> from_json(const json& object, const char* tag);

template <class T>
std::string read_fields(const json& object, T& into) {
    std::string complaint;
    if constexpr (std::is_same_v<T, News>) {
        if (auto item = from_json<NewsItem>(object, "kind"))
            into.what = std::move(*item);
        else
            return item.error().message;
        Reader reader(object, "", complaint);
        reader("seq", into.seq);
    } else if constexpr (std::is_same_v<T, NewsBatch>) {
        const auto items = object.find("items");
        if (items == object.end() || !items->is_array()) return "items is not a list";
        for (const json& item : *items) {
            complaint = item.is_object() ? read_fields(item, into.items.emplace_back()) : "an item is not an object";
            if (!complaint.empty()) return complaint;
        }
    } else {
        Reader reader(object, "", complaint);
        fields(reader, into);
    }
    return complaint;
}

// Tries alternative I and those behind it until one has the message's name.
template <class Variant, std::size_t I = 0>
Result<Variant> read_alternative(const json& object, const std::string& name) {
    if constexpr (I == std::variant_size_v<Variant>) {
        return wrong("unknown message type '" + name + "'");
    } else {
        if (name != names<Variant>[I]) return read_alternative<Variant, I + 1>(object, name);
        std::variant_alternative_t<I, Variant> value;
        const std::string complaint = read_fields(object, value);
        if (!complaint.empty()) return wrong("message '" + name + "': " + complaint);
        return Variant(std::in_place_index<I>, std::move(value));
    }
}

template <class Variant>
Result<Variant> from_json(const json& object, const char* tag) {
    const auto name = object.find(tag);
    if (name == object.end() || !name->is_string()) return wrong(std::string("message without \"") + tag + "\"");
    return read_alternative<Variant>(object, name->get<std::string>());
}

template <class Variant>
Result<Variant> parsed(const std::string& text) {
    const json object = parse_json(text);
    if (!object.is_object()) {
        const bool deep = storage::nests_too_deep(text);
        return wrong("message is not a JSON object (" + std::to_string(text.size()) + " bytes)" +
                     (deep ? ": it has more than " + std::to_string(storage::json_levels_most) + " levels" : ""));
    }
    return from_json<Variant>(object, "type");
}

}  // namespace

std::string encode(const FromAgent& message) { return text_of(message); }
std::string encode(const FromHead& message) { return text_of(message); }
std::string encode(const GroupMessage& message) { return text_of(message); }
std::string encode_news(const News& news) { return encode(FromAgent{news}); }
Result<FromAgent> decode_from_agent(const std::string& text) { return parsed<FromAgent>(text); }
Result<FromHead> decode_from_head(const std::string& text) { return parsed<FromHead>(text); }
Result<GroupMessage> decode_group(const std::string& text) {
    auto message = parsed<GroupMessage>(text);
    if (!message) return message;
    const std::string* directory = nullptr;
    if (const auto* released = std::get_if<GroupReleased>(&*message)) directory = &released->directory;
    if (const auto* committed = std::get_if<GroupCommitted>(&*message)) directory = &committed->directory;
    if (directory && !directory->empty() && !is_checkpoint_directory(*directory))
        return wrong("field 'directory' is not the name of a directory in the run");
    const std::vector<StagedFile>* files = nullptr;
    if (const auto* report = std::get_if<GroupReport>(&*message)) files = &report->files;
    if (const auto* uploaded = std::get_if<GroupUploaded>(&*message)) files = &uploaded->files;
    for (const StagedFile& file : files ? *files : std::vector<StagedFile>{})
        if (!storage::safe_relative(file.path) || file.bytes < 0)
            return wrong("field 'files' names what is no file of a checkpoint, rank " + std::to_string(file.rank) +
                         "'s \"" + file.path + "\" of " + std::to_string(file.bytes) + " bytes");
    return message;
}
Result<News> decode_news(const std::string& text) {
    auto message = parsed<FromAgent>(text);
    if (!message) return message.error();
    if (News* news = std::get_if<News>(&*message)) return std::move(*news);
    return wrong("news expected, another message found");
}

}  // namespace rtrain::protocol
