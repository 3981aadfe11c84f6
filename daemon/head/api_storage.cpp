// cluster://, the head's storage root over HTTPS. Writes are durable when answered. Uploads in pieces are appended to a
// file of their own below <root>/.uploads and moved into place with the last piece, so a reader sees a file whole or
// not.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "daemon/head/api.hpp"
#include "daemon/head/plain_files.hpp"
#include "daemon/head/reach.hpp"
#include "daemon/head/view_json.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;
constexpr const char* uploads = "/.uploads";

constexpr std::size_t path_bytes_max = 1'000, name_bytes_max = 255;  // no file system has longer names

std::optional<net::Response> refusal_of(const Ask& ask, Touch touch) {
    return refuse_unreached(ask.head, ask.caller, ask.variables.at("path"), touch);
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
    bool in_place = false;  // the last piece of an upload: the file has its name
};
Outcome failed(Error error) { return {.status = http_status(error), .error = std::move(error)}; }
Outcome done(const Status& status, int code) {
    if (!status) return failed(status.error());
    return {.status = code};
}

void answer_with(Ask& ask, Outcome outcome) {
    if (!outcome.error) return reply_json(ask, outcome.status, std::move(outcome.body));
    if (outcome.status != 412) return refuse(ask, *outcome.error);
    ask.responder->send(net::Response{.status = 412, .body = error_body(*outcome.error, {})});
}

// `first` runs on the loop before the answer is made.
template <class Work>
void on_store(const Ask& ask, Work work, std::function<void(const Outcome&)> first = [](const Outcome&) {}) {
    ask.head.loop.offload_at(
        ask.head.options.storage_root,
        [root = ask.head.options.storage_root, leftover = ask.request.body_file, work] {
            auto store = storage::open_file_store(root);
            Outcome outcome = store ? work(**store) : failed(store.error());
            std::error_code ignored;
            if (!leftover.empty()) fs::remove(leftover, ignored);
            return outcome;
        },
        failed,
        [kept = ask, first = std::move(first)](Outcome outcome) mutable {
            first(outcome);
            guarded(kept, [&] { answer_with(kept, std::move(outcome)); });
        });
}

// What is taken through memory. Larger files come whole, or in pieces.
Result<std::string> bytes_of(const std::string& body_file) {
    if (body_file.empty()) return std::string{};
    if (size_of(body_file) > storage_body_max)
        return Error{ErrorCode::usage,
                     "a piece, an appended part and a file that must be new have at most " +
                         std::to_string(storage_body_max >> 20) + " MiB",
                     "send it in pieces (?upload=...&offset=...&total=...), or whole without If-None-Match"};
    return read_file(body_file);
}

struct Piece {
    std::string part, path, body_file;
    std::uint64_t offset = 0, total = 0;
};

// Pieces come in order; one that comes twice is answered with how much is there. Where all bytes are there and the file
// is not in its place (its move failed, or this head ended before it), a last piece without bytes moves it.
Outcome take_piece(storage::Store& store, const Piece& piece) {
    const std::uint64_t have = size_of(piece.part);
    if (piece.offset != have)
        return failed({ErrorCode::conflict,
                       std::to_string(have) + " bytes of this upload are here, the piece begins at " +
                           std::to_string(piece.offset),
                       "go on at " + std::to_string(have)});
    const auto bytes = bytes_of(piece.body_file);
    if (!bytes) return failed(bytes.error());
    if (have + bytes->size() > piece.total) return failed({ErrorCode::usage, "the pieces are longer than total", ""});
    const std::string part_name = fs::path(piece.part).filename();
    if (auto written = store.append(".uploads/" + part_name, *bytes); !written) return failed(written.error());
    if (have + bytes->size() == piece.total)
        if (auto moved = store.put_file(piece.part, piece.path, /*may_move=*/true, {}); !moved)
            return failed(moved.error());
    const bool whole = have + bytes->size() == piece.total;
    return {.status = 200, .error = {}, .body = {{"bytes", have + bytes->size()}, {"done", whole}}, .in_place = whole};
}

Outcome create_only(storage::Store& store, const std::string& path, const std::string& body_file) {
    const auto bytes = bytes_of(body_file);
    if (!bytes) return failed(bytes.error());
    const auto created = store.create(path, *bytes);
    if (!created) return failed(created.error());
    if (*created) return {.status = 201};
    return {.status = 412, .error = Error{ErrorCode::conflict, path + " exists", ""}};
}

Outcome append_to(storage::Store& store, const std::string& path, const std::string& body_file) {
    const auto bytes = bytes_of(body_file);
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
    const Piece piece{upload_file(ask), ask.variables["path"], ask.request.body_file, offset ? *offset : 0,
                      total ? *total : 0};
    const bool readable = offset && total;
    const bool alone = readable && ask.head.parts.begin(piece.part, piece.offset);
    if (!alone) drop_body(ask);
    if (!readable) return refuse(ask, offset ? total.error() : offset.error());
    if (!alone)
        return refuse(ask, {ErrorCode::conflict, "a piece of this upload is still being written",
                            "ask in a moment how much of it is here"});
    on_store(
        ask, [piece](storage::Store& store) { return take_piece(store, piece); },
        [&parts = ask.head.parts, part = piece.part](const Outcome& outcome) {
            parts.end(part);
            if (outcome.in_place) parts.in_place(part);
        });
}

bool untouched(const fs::path& file, std::int64_t for_ms) {
    std::error_code gone;
    const auto written = fs::last_write_time(file, gone);
    return !gone && fs::file_time_type::clock::now() - written > std::chrono::milliseconds(for_ms);
}

}  // namespace

// A node is let to the files of its attempts' runs. A read of a run that was removed finds nothing: its agent then
// drops what it had still to deliver there.
std::optional<net::Response> refuse_unreached(const Head& head, const Caller& caller, const std::string& path,
                                              Touch touch) {
    if (caller.role != Role::node) return std::nullopt;
    const NodeId node{caller.node};
    const auto& named = head.names.named(run_named_in(path, node));
    if (reaches_file(head.cluster, named, node, path, touch, head.clock.now())) return std::nullopt;
    if (touch == Touch::read && named.empty())
        return net::Response{.status = 404,
                             .body = error_body({ErrorCode::not_found, "cluster://" + path + " is of no run", ""}, {})};
    const Error error{ErrorCode::unauthorised,
                      "node " + caller.node + " may not reach cluster://" + path +
                          ": no attempt of that run is on it, or none has been for two weeks",
                      ""};
    return net::Response{.status = 403, .body = error_body(error, {})};
}

// Its client gave up on an upload, or is gone; one that goes on does so within seconds.
void sweep_uploads(const std::string& storage_root, std::int64_t untouched_ms) {
    std::error_code failed;
    for (fs::directory_iterator at(storage_root + uploads, failed), end; !failed && at != end; at.increment(failed)) {
        if (!untouched(at->path(), untouched_ms)) continue;
        std::error_code stays;
        if (!fs::remove(at->path(), stays) || stays)
            std::fprintf(stderr, "rtrain head: %s stays: %s\n", at->path().c_str(), stays.message().c_str());
    }
}

Status storage_name(const std::string& path) {
    const Error bad{ErrorCode::usage, "'" + path.substr(0, 100) + "' is no path below the storage root",
                    "use relative paths without '..', of at most " + std::to_string(path_bytes_max) +
                        " bytes, each name of at most " + std::to_string(name_bytes_max)};
    if (path.empty() || path.size() > path_bytes_max || path.find('\0') != std::string::npos) return bad;
    for (const fs::path& part : fs::path(path))
        if (part == ".." || part == "." || part.empty() || part == "/" || part.native().size() > name_bytes_max)
            return bad;
    if (path.starts_with(".uploads")) return bad;
    return Done{};
}

Result<std::string> upload_place(const Head& head, const net::Request& request) {
    constexpr std::string_view blobs = "/v1/blobs/", stored = "/v1/storage/";
    const bool blob = request.path.starts_with(blobs);
    const std::string name = request.path.substr((blob ? blobs : stored).size());
    const Status named = blob ? blob_name(name) : storage_name(name);
    if (!named) return named.error();
    return blob ? head.scratch_path() : head.options.storage_root + uploads + "/" + security::random_hex(12) + ".whole";
}

Status upload_room(const Head& head, Upload kind, std::uint64_t bytes) {
    const std::string& root = kind == Upload::blob ? head.options.data_dir : head.options.storage_root;
    const std::uint64_t free = head.options.free_bytes ? head.options.free_bytes(root) : free_bytes(root);
    const auto reserve = static_cast<std::uint64_t>(head.options.storage_reserve);
    if (free >= reserve && free - reserve >= bytes) return Done{};
    return Error{ErrorCode::full,
                 root + " on the head has " + std::to_string(free >> 20) + " MiB free; " +
                     std::to_string(reserve >> 20) + " MiB stay in reserve, " + std::to_string(bytes >> 20) +
                     " MiB were to be written",
                 "make room on the head, or give the runs a storage_path of their own"};
}

void get_storage(Ask& ask) {
    const std::string path = ask.variables["path"];
    const Status named = storage_name(path);
    if (!named && !(path.empty() && ask.asked("list"))) return refuse(ask, named.error());
    if (auto refused = refusal_of(ask, Touch::read)) return ask.responder->send(std::move(*refused));
    if (ask.asked("list")) return on_store(ask, [path](storage::Store& store) { return listing(store, path); });
    if (!ask.query("upload").empty()) {
        const std::string part = upload_file(ask);
        const bool done = ask.head.parts.done(part);
        return on_store(ask, [part, done](storage::Store&) -> Outcome {
            return {.status = 200, .error = {}, .body = {{"bytes", size_of(part)}, {"done", done}}};
        });
    }
    send_plain(ask, ask.head.options.storage_root,
               [path, root = ask.head.options.storage_root]() -> Result<storage::Descriptor> {
                   const auto top = storage::open_top(root);
                   if (!top) return top.error();
                   auto file = open_plain(*top, path);
                   if (file || file.error().code == ErrorCode::unauthorised) return file;
                   return Error{ErrorCode::not_found, "cluster://" + path + " does not exist", ""};
               });
}

void put_storage(Ask& ask) {
    const std::string path = ask.variables["path"], body_file = ask.request.body_file;
    const Status named = storage_name(path);
    auto refused = named ? refusal_of(ask, Touch::write) : std::nullopt;
    if (!named || refused) {
        drop_body(ask);
        return named ? ask.responder->send(std::move(*refused)) : refuse(ask, named.error());
    }
    if (!ask.query("upload").empty()) return put_piece(ask);
    if (ask.request.header("if-none-match") == "*")
        return on_store(ask, [=](storage::Store& store) { return create_only(store, path, body_file); });
    if (ask.asked("append"))
        return on_store(ask, [=](storage::Store& store) { return append_to(store, path, body_file); });
    on_store(ask, [=](storage::Store& store) { return whole_file(store, path, body_file); });
}

void delete_storage(Ask& ask) {
    const std::string path = ask.variables["path"];
    if (const Status named = storage_name(path); !named) return refuse(ask, named.error());
    if (auto refused = refusal_of(ask, Touch::write)) return ask.responder->send(std::move(*refused));
    const bool tree = ask.asked("tree");
    on_store(ask, [path, tree](storage::Store& store) {
        return done(tree ? store.remove_tree(path) : store.remove(path), 200);
    });
}

}  // namespace rtrain::head
