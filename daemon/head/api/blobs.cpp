// Stores code archives by their hash: <data>/blobs/<sha256>. A blob becomes visible only when it is complete and its
// hash is right.
#include "daemon/head/files/blobs.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "daemon/head/access/ownership.hpp"
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/head/files/submissions.hpp"
#include "daemon/head/files/uploads.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "storage/checkpoint/run_directory.hpp"
#include "storage/uri/files/disk.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;

// Returns the path of the blob that the URL names. Returns an empty text if the request was refused.
std::string named_blob(Exchange& exchange, const HeadOptions& options) {
    const std::string& sha256 = exchange.variables["sha256"];
    const Status named = blob_name(sha256);
    if (named) return blob_path(options, sha256);
    drop_body(exchange);
    refuse(exchange, named.error());
    return "";
}

// Returns true if a node may read the blob: it is the code of the node's live attempts, or the jobs of these attempts
// name it (such as the loop of a Python run).
bool reached(const Exchange& exchange, const Submissions& submissions, const std::string& sha256) {
    if (exchange.caller.role != Role::node) return true;
    const Cluster& cluster = exchange.view.cluster;
    for (const AttemptId& id : cluster.index.on_node(NodeId{exchange.caller.node}))
        if (const auto run = cluster.runs.find(id.run); run != cluster.runs.end())
            if (run->second.job_json.find(sha256) != std::string::npos ||
                submissions.code(run->second.submit_key) == sha256)
                return true;
    return false;
}

// Returns true if the caller may read the blob. A person may read only blobs that they have uploaded. A hash, which
// views and logs show, gives no access by itself.
bool may_have(const Exchange& exchange, const Ownership& ownership) {
    return exchange.caller.role == Role::node || ownership.has_blob(exchange.caller, exchange.variables.at("sha256"));
}

// Checks the hash, syncs the file and moves it to its place. Blocks on the disk.
Status settle(const std::string& upload, const std::string& path, const std::string& sha256) {
    const auto hash = storage::hash_file(upload);
    if (!hash) return hash.error();
    if (*hash != sha256)
        return Error{ErrorCode::invalid, "the bytes that came have the hash " + *hash + ", not " + sha256,
                     "send the archive again"};
    const int descriptor = ::open(upload.c_str(), O_RDONLY | O_CLOEXEC);
    const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
    if (descriptor >= 0) ::close(descriptor);
    if (!synced) return Error{ErrorCode::io, "syncing " + upload + " failed", "check the head's disk"};
    std::error_code failed;
    fs::rename(upload, path, failed);
    if (failed) return Error{ErrorCode::io, "moving to " + path + ": " + failed.message(), "check the head's disk"};
    return storage::disk::sync_directory(
        fs::path(path).parent_path());  // the directory is synced, so that the blob still exists after a power failure
}

}  // namespace

void head_blob(Exchange& exchange, const HeadOptions& options, const Ownership& ownership,
               const Submissions& submissions) {
    const std::string path = named_blob(exchange, options);
    if (path.empty()) return;
    if (!reached(exchange, submissions,
                 exchange.variables["sha256"]))  // the answer is the same whether the blob exists or not
        return exchange.responder->send(net::Response{.status = 404, .body = ""});
    if (!may_have(exchange, ownership)) return exchange.responder->send(net::Response{.status = 404, .body = ""});
    // Sets the blob's time, since the caller is about to submit a job with it.
    std::error_code absent;
    fs::last_write_time(path, fs::file_time_type::clock::now(), absent);
    exchange.responder->send(net::Response{.status = absent ? 404 : 200, .body = ""});
}

void get_blob(Exchange& exchange, const HeadOptions& options, const Ownership& ownership,
              const Submissions& submissions) {
    const std::string path = named_blob(exchange, options);
    if (path.empty()) return;
    if (!reached(exchange, submissions, exchange.variables["sha256"])) {
        const Error error{ErrorCode::unauthorised,
                          "node " + exchange.caller.node + " may not read this archive: no attempt on it uses it", ""};
        return exchange.responder->send(net::Response{.status = 403, .body = error_body(error, {})});
    }
    std::error_code none;
    if (!may_have(exchange, ownership) || !fs::is_regular_file(path, none))
        return refuse(exchange, {ErrorCode::not_found, "no archive has this hash", ""});
    exchange.responder->send(net::Response{
        .status = 200, .content_type = "application/zstd", .file = path, .permitted = exchange.permitted});
}

void put_blob(Exchange& exchange, const HeadOptions& options, UserBytes& bytes) {
    const std::string path = named_blob(exchange, options), upload = exchange.request.body_file;
    if (path.empty()) return;
    if (upload.empty()) return refuse(exchange, {ErrorCode::usage, "an upload needs a body", ""});
    on_pool(
        exchange,
        [=, sha256 = exchange.variables["sha256"]] {
            const Status settled = settle(upload, path, sha256);
            std::error_code ignored;
            if (!settled) fs::remove(upload, ignored);
            return settled;
        },
        [&options, &bytes](Exchange& kept, const Status& settled) {
            if (!settled) return refuse(kept, settled.error());
            const std::string sha256 = kept.variables["sha256"];
            if (kept.caller.role != Role::node) count_blob(bytes, options, sha256, kept.caller.user);
            auto answer = [kept, sha256]() mutable { reply_json(kept, 201, {{"sha256", sha256}}); };
            if (kept.caller.role == Role::node) return answer();
            kept.events.save(
                {.tokens = {}, .settings = {{blob_setting(sha256, kept.caller.user), "1"}}, .done = std::move(answer)});
        });
}

}  // namespace rtrain::head
