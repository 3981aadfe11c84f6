// Code archives by their hash: <data>/blobs/<sha256>. A blob is there whole and right, or not at all.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "daemon/head/api.hpp"
#include "daemon/head/ownership.hpp"
#include "daemon/head/view_json.hpp"
#include "storage/checkpoint/run_directory.hpp"
#include "storage/uri/files/disk.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;

// The blob's path, or empty after a refusal.
std::string named_blob(Ask& ask) {
    const std::string& sha256 = ask.variables["sha256"];
    const Status named = blob_name(sha256);
    if (named) return ask.head.blob_path(sha256);
    drop_body(ask);
    refuse(ask, named.error());
    return "";
}

// A node is let to the code of its live attempts, and to what their jobs name (a Python run's loop).
bool reached(const Ask& ask, const std::string& sha256) {
    if (ask.caller.role != Role::node) return true;
    const Cluster& cluster = ask.head.cluster;
    for (const AttemptId& id : cluster.ledger.on_node(NodeId{ask.caller.node}))
        if (const auto run = cluster.runs.find(id.run); run != cluster.runs.end())
            if (run->second.job_json.find(sha256) != std::string::npos ||
                SubmissionFiles::code(ask.head, run->second.submit_key) == sha256)
                return true;
    return false;
}

// People have what they have sent: a hash is in views and logs, and opens nothing.
bool may_have(const Ask& ask) {
    return ask.caller.role == Role::node || has_blob(ask.head, ask.caller, ask.variables.at("sha256"));
}

// Blocking: hash, sync, put in place.
Status settle(const std::string& upload, const std::string& path, const std::string& wanted) {
    const auto hash = storage::hash_file(upload);
    if (!hash) return hash.error();
    if (*hash != wanted)
        return Error{ErrorCode::invalid, "the bytes that came have the hash " + *hash + ", not " + wanted,
                     "send the archive again"};
    const int descriptor = ::open(upload.c_str(), O_RDONLY | O_CLOEXEC);
    const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
    if (descriptor >= 0) ::close(descriptor);
    if (!synced) return Error{ErrorCode::io, "syncing " + upload + " failed", "check the head's disk"};
    std::error_code failed;
    fs::rename(upload, path, failed);
    if (failed) return Error{ErrorCode::io, "moving to " + path + ": " + failed.message(), "check the head's disk"};
    return storage::disk::sync_directory(
        fs::path(path).parent_path());  // else a power cut takes back what was answered
}

}  // namespace

Status blob_name(const std::string& text) {
    if (text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos) return Done{};
    return Error{ErrorCode::usage, "'" + text.substr(0, 100) + "' is not a SHA-256 in lower-case hex",
                 "name the blob by the hash of its bytes"};
}

void head_blob(Ask& ask) {
    const std::string path = named_blob(ask);
    if (path.empty()) return;
    if (!reached(ask, ask.variables["sha256"]))  // is not told whether it is there
        return ask.responder->send(net::Response{.status = 404, .body = ""});
    if (!may_have(ask)) return ask.responder->send(net::Response{.status = 404, .body = ""});
    // Whoever asks is about to submit with it: it counts as fresh.
    std::error_code absent;
    fs::last_write_time(path, fs::file_time_type::clock::now(), absent);
    ask.responder->send(net::Response{.status = absent ? 404 : 200, .body = ""});
}

void get_blob(Ask& ask) {
    const std::string path = named_blob(ask);
    if (path.empty()) return;
    if (!reached(ask, ask.variables["sha256"])) {
        const Error error{ErrorCode::unauthorised,
                          "node " + ask.caller.node + " may not read this archive: no attempt on it uses it", ""};
        return ask.responder->send(net::Response{.status = 403, .body = error_body(error, {})});
    }
    std::error_code none;
    if (!may_have(ask) || !fs::is_regular_file(path, none))
        return refuse(ask, {ErrorCode::not_found, "no archive has this hash", ""});
    ask.responder->send(net::Response{
        .status = 200, .content_type = "application/zstd", .file = path, .permitted = still_permitted(ask)});
}

void put_blob(Ask& ask) {
    const std::string path = named_blob(ask), upload = ask.request.body_file;
    if (path.empty()) return;
    if (upload.empty()) return refuse(ask, {ErrorCode::usage, "an upload needs a body", ""});
    on_pool(
        ask,
        [=, wanted = ask.variables["sha256"]] {
            const Status settled = settle(upload, path, wanted);
            std::error_code ignored;
            if (!settled) fs::remove(upload, ignored);
            return settled;
        },
        [](Ask& kept, const Status& settled) {
            if (!settled) return refuse(kept, settled.error());
            const std::string sha256 = kept.variables["sha256"];
            auto answer = [kept, sha256]() mutable { reply_json(kept, 201, {{"sha256", sha256}}); };
            if (kept.caller.role == Role::node) return answer();
            kept.head.save(
                {.tokens = {}, .settings = {{blob_setting(sha256, kept.caller.user), "1"}}, .done = std::move(answer)});
        });
}

}  // namespace rtrain::head
