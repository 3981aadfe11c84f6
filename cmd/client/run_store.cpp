// Finds a run's directory on this machine's file systems, in a bucket, or on the head through its API.
#include "cmd/client/run_store.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/checkpoint_name.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/status_text.hpp"
#include "daemon/agent/peers/cluster_store.hpp"
#include "daemon/net/client.hpp"
#include "storage/uri/open_store.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::string_view cluster_scheme = "cluster://";

Result<RunStore> on_cluster(Invocation& call, const std::string& run_name, const std::string& checkpoint) {
    Result<Settings> settings = Settings::load(call.arguments);
    if (!settings) return settings.error();
    Result<Api> api = Api::open(call);  // the error of Api::open names the missing setting
    if (!api) return api.error();
    Result<HostPort> where = parse_host_port(settings->value("address"), 7433);
    if (!where) return where.error();
    net::Endpoint endpoint;
    endpoint.host = where->host;
    endpoint.port = where->port;
    endpoint.ca = settings->value("ca");
    endpoint.ca_fingerprint = endpoint.ca.empty() ? settings->value("ca_fingerprint") : "";
    endpoint.bearer = settings->value("token");
    return RunStore{.store = agent::open_cluster_store(std::move(endpoint)),
                    .storage_path = "",
                    .run_name = run_name,
                    .checkpoint = checkpoint,
                    .shown = "cluster://" + run_name};
}

// The directory of a run, and a checkpoint's path below it.
struct WithinRun {
    std::string run, checkpoint;
};

// Returns the run that the checkpoint at `path` belongs to: the nearest directory above for which `is_run` returns
// true. Returns nullopt if there is none.
template <class IsRun>
Result<std::optional<WithinRun>> within_run(const std::string& path, IsRun is_run) {
    std::size_t slash = path.rfind('/');
    for (std::size_t parts = 0; parts < storage::checkpoint_parts_most && slash != path.npos && slash > 0; ++parts) {
        const Result<bool> run = is_run(path.substr(0, slash));
        if (!run) return run.error();
        if (*run) return std::optional(WithinRun{.run = path.substr(0, slash), .checkpoint = path.substr(slash + 1)});
        slash = path.rfind('/', slash - 1);
    }
    return std::optional<WithinRun>();
}

Result<bool> is_run_on_disk(const std::string& path) {
    std::error_code failed;
    return fs::exists(fs::path(path) / "run.json", failed);
}

Result<RunStore> on_disk(const fs::path& run_directory, const std::string& checkpoint) {
    std::error_code failed;
    if (!fs::exists(run_directory / "run.json", failed))
        return Error{.code = ErrorCode::not_found,
                     .message = run_directory.string() + (fs::exists(run_directory, failed)
                                                              ? " is no run's directory: it has no run.json"
                                                              : " is not there"),
                     .next = "give <storage_path>/<run name>, on a machine that sees that storage"};
    Result<std::unique_ptr<storage::Store>> store = storage::open_file_store(run_directory.parent_path().string());
    if (!store) return store.error();
    return RunStore{.store = std::move(*store),
                    .storage_path = run_directory.parent_path().string(),
                    .run_name = run_directory.filename().string(),
                    .checkpoint = checkpoint,
                    .shown = run_directory.string()};
}

Result<bool> holds(storage::Store& store, const std::string& path) {
    const Result<std::string> text = store.get(path);
    if (!text && text.error().code != ErrorCode::not_found) return text.error();
    return text.ok();
}

// Returns the position of the slash before the last part of a URI; npos if the URI names a bucket alone.
std::size_t last_slash(const std::string& uri) {
    const auto slash = uri.rfind('/');
    return slash == uri.npos || slash <= uri.find("://") + 2 ? uri.npos : slash;
}

// `path` is a URI such as s3://bucket/prefix/run.
Result<bool> is_run_in_bucket(const std::string& path) {
    const auto slash = last_slash(path);
    if (slash == path.npos) return false;
    Result<std::unique_ptr<storage::Store>> store = storage::open_store(path.substr(0, slash));
    if (!store) return store.error();
    return holds(**store, path.substr(slash + 1) + "/run.json");
}

// `path` is a URI such as s3://bucket/prefix/run, and a checkpoint's name may follow.
Result<RunStore> in_bucket(const std::string& path, const std::string& checkpoint) {
    const auto slash = last_slash(path);
    if (slash == path.npos)
        return Error{.code = ErrorCode::usage,
                     .message = path + " names a bucket, and no run in it",
                     .next = "give " + path.substr(0, path.find("://")) + "://BUCKET/PREFIX/RUN"};
    const std::string above = path.substr(0, slash), name = path.substr(slash + 1);
    Result<std::unique_ptr<storage::Store>> store = storage::open_store(above);
    if (!store) return store.error();
    const Result<bool> run = holds(**store, name + "/run.json");
    if (!run) return run.error();
    if (*run)
        return RunStore{.store = std::move(*store),
                        .storage_path = above,
                        .run_name = name,
                        .checkpoint = checkpoint,
                        .shown = path};
    const Result<bool> committed = holds(**store, name + "/.manifest.json");
    if (!committed) return committed.error();
    const Result<std::optional<WithinRun>> within =
        *committed && checkpoint.empty() ? within_run(path, is_run_in_bucket) : std::optional<WithinRun>();
    if (!within) return within.error();
    if (*within) return in_bucket((*within)->run, (*within)->checkpoint);
    return Error{.code = ErrorCode::not_found,
                 .message = path + " is no run's directory: it has no run.json",
                 .next = "give <storage_path>/<run name>"};
}

Result<RunStore> from_path(const std::string& text, const std::string& checkpoint) {
    Result<storage::StorageUri> uri =
        storage::parse_uri(text.find("://") == text.npos ? fs::absolute(text).string() : text);
    if (!uri) return uri.error();
    if (storage::is_bucket(uri->scheme)) return in_bucket(storage::text_of(*uri), checkpoint);
    fs::path path = fs::path(uri->path).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();
    std::error_code failed;
    if (checkpoint.empty() && fs::exists(path / ".manifest.json", failed))
        if (const auto within = within_run(path.string(), is_run_on_disk); within && *within)
            return on_disk((*within)->run, (*within)->checkpoint);
    return on_disk(path, checkpoint);
}

bool is_run_at(const std::string& place) {
    // only the head can check whether the run exists
    if (place.starts_with(cluster_scheme) || place.find('/') == place.npos) return true;
    if (place.find("://") == place.npos) return *is_run_on_disk(place);
    const Result<storage::StorageUri> uri = storage::parse_uri(place);
    if (uri && uri->scheme == storage::Scheme::file) return *is_run_on_disk(uri->path);
    if (!uri || !storage::is_bucket(uri->scheme)) return false;
    const Result<bool> run = is_run_in_bucket(storage::text_of(*uri));
    return run && *run;
}

// Returns the position at which the checkpoint's name begins in RUN@CHECKPOINT or PATH@CHECKPOINT; npos if none is
// named. A path, and the directory of a checkpoint, may contain '@'.
std::size_t checkpoint_begin(const std::string& text) {
    std::error_code failed;
    const auto at = text.rfind('@');
    if (at == text.npos || (is_path(text) && fs::exists(text, failed))) return text.npos;
    if (text.find('/', at) == text.npos) return at;
    for (auto sign = text.find('@'); sign != text.npos; sign = text.find('@', sign + 1))
        if (is_run_at(text.substr(0, sign))) return sign;
    return text.npos;
}

Result<RunStore> from_name(Invocation& call, const std::string& name, const std::string& checkpoint) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    Result<json> run = api->get("/v1/runs/" + url_part(name));
    if (!run) return run.error();
    const std::string storage = string_of(*run, "storage_path"), run_name = string_of(*run, "name");
    const bool on_head = storage.empty() || storage.starts_with(cluster_scheme);
    Result<RunStore> place =
        on_head ? on_cluster(call, run_name, checkpoint) : from_path(storage + "/" + run_name, checkpoint);
    if (place) place->run_id = string_of(*run, "run_id");
    return place;
}

}  // namespace

Result<StoredPath> open_stored_path(Invocation& call, const std::string& text) {
    if (text.starts_with(cluster_scheme)) {
        Result<RunStore> opened = on_cluster(call, text.substr(cluster_scheme.size()), "");
        if (!opened) return opened.error();
        return StoredPath{.store = std::move(opened->store), .root = "cluster://", .path = opened->run_name};
    }
    Result<storage::StorageUri> uri =
        storage::parse_uri(text.find("://") == text.npos ? fs::absolute(text).string() : text);
    if (!uri) return uri.error();
    const bool bucket = storage::is_bucket(uri->scheme);
    const auto slash = bucket ? uri->path.find('/') : std::string::size_type{0};
    std::string root = bucket ? storage::prefix_of(uri->scheme) + uri->path.substr(0, slash) : "/";
    Result<std::unique_ptr<storage::Store>> store = storage::open_store(bucket                                 ? root
                                                                        : uri->scheme == storage::Scheme::file ? "/"
                                                                                                               : text);
    if (!store) return store.error();
    return StoredPath{.store = std::move(*store),
                      .root = bucket ? root + "/" : root,
                      .path = slash == uri->path.npos ? "" : uri->path.substr(slash + 1)};
}

bool is_path(const std::string& text) {
    std::error_code failed;
    return text.find('/') != text.npos || text == "." || fs::exists(fs::path(text) / "run.json", failed);
}

Result<RunStore> open_run_store(Invocation& call, const std::string& text) {
    const auto at = checkpoint_begin(text);
    const std::string place = text.substr(0, at);
    const std::string checkpoint = at == text.npos ? "" : text.substr(at + 1);
    if (place.starts_with(cluster_scheme)) return on_cluster(call, place.substr(cluster_scheme.size()), checkpoint);
    return is_path(place) ? from_path(place, checkpoint) : from_name(call, place, checkpoint);
}

}  // namespace rtrain::cmd
