// cluster://, the head's storage root over HTTPS. Writes are durable when answered. Uploads in pieces are appended to a
// file of their own below <root>/.uploads and moved into place with the last piece, so a reader sees a file whole or
// not.
#include <sys/statvfs.h>

#include <charconv>
#include <filesystem>

#include "daemon/head/api.hpp"
#include "daemon/head/view_json.hpp"
#include "storage/uri/store.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;
constexpr const char* uploads = "/.uploads";

bool safe_path(const std::string& path) {
    if (path.empty() || path.size() > 1'000 || path.find('\0') != std::string::npos) return false;
    for (const fs::path& part : fs::path(path))
        if (part == ".." || part == "." || part.empty() || part == "/") return false;
    return !path.starts_with(".uploads");
}

Error bad_path(const std::string& path) {
    return {ErrorCode::usage, "'" + path + "' is no path below the storage root", "use relative paths without '..'"};
}

// One file per uploader, target and upload id: agents count their ids on their own.
std::string upload_file(const Ask& ask) {
    const std::string who =
        ask.caller.node + "|" + ask.caller.user + "|" + ask.variables.at("path") + "|" + ask.query("upload");
    return ask.head.options.storage_root + uploads + "/" + security::sha256_hex(who).substr(0, 40) + ".part";
}

Result<std::uint64_t> number_of(const Ask& ask, const std::string& name) {
    const std::string text = ask.query(name);
    std::uint64_t value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || fault != std::errc{} || end != text.data() + text.size())
        return Error{ErrorCode::usage, name + "='" + text + "' is not a number of bytes", ""};
    return value;
}

std::uint64_t size_of(const std::string& path) {
    std::error_code none;
    const auto size = fs::file_size(path, none);
    return none ? 0 : size;
}

// What a request does to the store, on the pool; its answer is made on the loop.
struct Outcome {
    int status = 200;
    std::optional<Error> error;
    json body = json::object();
};
Outcome failed(Error error) { return {.status = http_status(error), .error = std::move(error)}; }
Outcome done(const Status& status, int code) {
    if (!status) return failed(status.error());
    return {.status = code};
}

template <class Work>
void on_pool(Ask& ask, Work work) {
    auto outcome = std::make_shared<Outcome>();
    const std::string root = ask.head.options.storage_root, leftover = ask.request.body_file;
    ask.head.loop.offload(
        [outcome, root, leftover, work] {
            auto store = storage::open_file_store(root);
            *outcome = store ? work(**store) : failed(store.error());
            std::error_code ignored;
            if (!leftover.empty()) fs::remove(leftover, ignored);
        },
        [kept = ask, outcome]() mutable {
            if (!outcome->error) return reply_json(kept, outcome->status, std::move(outcome->body));
            if (outcome->status != 412) return refuse(kept, *outcome->error);
            kept.responder->send(net::Response{.status = 412, .body = error_body(*outcome->error, {})});
        });
}

struct Piece {
    std::string part, path, body_file;
    std::uint64_t offset = 0, total = 0;
};

// Pieces come in order; one that comes twice is answered with how much is there.
Outcome take_piece(storage::Store& store, const Piece& piece) {
    const std::uint64_t have = size_of(piece.part);
    if (piece.offset != have)
        return failed({ErrorCode::conflict,
                       std::to_string(have) + " bytes of this upload are here, the piece begins at " +
                           std::to_string(piece.offset),
                       "go on at " + std::to_string(have)});
    const auto bytes = piece.body_file.empty() ? Result<std::string>(std::string{}) : read_file(piece.body_file);
    if (!bytes) return failed(bytes.error());
    if (have + bytes->size() > piece.total) return failed({ErrorCode::usage, "the pieces are longer than total", ""});
    const std::string part_name = fs::path(piece.part).filename();
    if (auto written = store.append(".uploads/" + part_name, *bytes); !written) return failed(written.error());
    if (have + bytes->size() == piece.total)
        if (auto moved = store.put_file(piece.part, piece.path, /*may_move=*/true, {}); !moved)
            return failed(moved.error());
    return {.status = 200, .error = {}, .body = {{"bytes", have + bytes->size()}}};
}

Outcome create_only(storage::Store& store, const std::string& path, const std::string& body_file) {
    const auto bytes = body_file.empty() ? Result<std::string>(std::string{}) : read_file(body_file);
    if (!bytes) return failed(bytes.error());
    const auto created = store.create(path, *bytes);
    if (!created) return failed(created.error());
    if (*created) return {.status = 201};
    return {.status = 412, .error = Error{ErrorCode::conflict, path + " exists", ""}};
}

Outcome append_to(storage::Store& store, const std::string& path, const std::string& body_file) {
    const auto bytes = body_file.empty() ? Result<std::string>(std::string{}) : read_file(body_file);
    if (!bytes) return failed(bytes.error());
    return done(store.append(path, *bytes), 200);
}

Outcome whole_file(storage::Store& store, const std::string& path, const std::string& body_file) {
    if (body_file.empty()) return done(store.put(path, ""), 201);
    return done(store.put_file(body_file, path, /*may_move=*/true, {}), 201);
}

Outcome listing(storage::Store& store, const std::string& prefix) {
    const auto entries = store.list(prefix);
    if (!entries) return failed(entries.error());
    json items = json::array();
    for (const storage::StoreEntry& one : *entries)
        if (!one.path.starts_with(".uploads/")) items.push_back({{"path", one.path}, {"bytes", one.bytes}});
    return {.status = 200, .error = {}, .body = {{"items", std::move(items)}}};
}

void put_piece(Ask& ask) {
    const auto offset = number_of(ask, "offset"), total = number_of(ask, "total");
    if (!offset) return refuse(ask, offset.error());
    if (!total) return refuse(ask, total.error());
    const Piece piece{upload_file(ask), ask.variables["path"], ask.request.body_file, *offset, *total};
    on_pool(ask, [piece](storage::Store& store) { return take_piece(store, piece); });
}

}  // namespace

// On the server's threads, before the body comes: is there room, and where does it go?
Result<std::string> upload_place(const Head& head, const net::Request& request) {
    const bool blob = request.path.starts_with("/v1/blobs/");
    const std::string root = blob ? head.options.data_dir : head.options.storage_root;
    const std::string length = request.header("content-length");
    std::uint64_t bytes = 0;
    std::from_chars(length.data(), length.data() + length.size(), bytes);
    struct statvfs disk{};
    if (::statvfs(root.c_str(), &disk) == 0) {
        const std::uint64_t free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize;
        const auto reserve = static_cast<std::uint64_t>(head.options.storage_reserve);
        if (free < reserve || free - reserve < bytes)
            return Error{ErrorCode::full,
                         root + " on the head has " + std::to_string(free >> 20) + " MiB free; " +
                             std::to_string(reserve >> 20) + " MiB stay in reserve, " + std::to_string(bytes >> 20) +
                             " MiB were to be written",
                         "make room on the head, or give the runs a storage_path of their own"};
    }
    return blob ? head.scratch_path() : head.options.storage_root + uploads + "/" + security::random_hex(12) + ".whole";
}

void get_storage(Ask& ask) {
    const std::string path = ask.variables["path"];
    if (!safe_path(path) && !(path.empty() && ask.asked("list"))) return refuse(ask, bad_path(path));
    if (ask.asked("list")) return on_pool(ask, [path](storage::Store& store) { return listing(store, path); });
    if (!ask.query("upload").empty()) return reply_json(ask, 200, {{"bytes", size_of(upload_file(ask))}});
    const std::string file = ask.head.options.storage_root + "/" + path;
    std::error_code none;
    if (!fs::is_regular_file(file, none))
        return refuse(ask, {ErrorCode::not_found, "cluster://" + path + " does not exist", ""});
    ask.responder->send(net::Response{.status = 200, .content_type = "application/octet-stream", .file = file});
}

void put_storage(Ask& ask) {
    const std::string path = ask.variables["path"], body_file = ask.request.body_file;
    if (!safe_path(path)) {
        std::error_code ignored;
        if (!body_file.empty()) fs::remove(body_file, ignored);
        return refuse(ask, bad_path(path));
    }
    if (!ask.query("upload").empty()) return put_piece(ask);
    if (ask.request.header("if-none-match") == "*")
        return on_pool(ask, [=](storage::Store& store) { return create_only(store, path, body_file); });
    if (ask.asked("append"))
        return on_pool(ask, [=](storage::Store& store) { return append_to(store, path, body_file); });
    on_pool(ask, [=](storage::Store& store) { return whole_file(store, path, body_file); });
}

void delete_storage(Ask& ask) {
    const std::string path = ask.variables["path"];
    if (!safe_path(path)) return refuse(ask, bad_path(path));
    const bool tree = ask.asked("tree");
    on_pool(ask, [path, tree](storage::Store& store) {
        return done(tree ? store.remove_tree(path) : store.remove(path), 200);
    });
}

}  // namespace rtrain::head
