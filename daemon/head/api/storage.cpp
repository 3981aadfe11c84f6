// Serves cluster:// (the head's storage root) over HTTPS. Each write is durable when it is answered. An upload in
// pieces is collected in a file below <root>/.uploads, which is moved to its place after the last piece. So a reader
// finds either the whole file or none.
#include <charconv>
#include <filesystem>
#include <functional>

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/head/events/node_rights.hpp"
#include "daemon/head/files/part_uploads.hpp"
#include "daemon/head/files/stored_files.hpp"
#include "daemon/head/files/uploads.hpp"
#include "daemon/head/requests/file_answers.hpp"
#include "daemon/head/requests/node_reach.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/security/security.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;

std::optional<net::Response> refusal_of(const Exchange& exchange, Touch touch) {
    return refuse_unreached(exchange.view, exchange.caller, exchange.variables.at("path"), touch);
}

// Returns the path of the file that collects an upload. Agents count their upload ids independently, so the file's name
// contains the uploader and the target.
std::string upload_file(const Exchange& exchange, const HeadOptions& options) {
    const std::string who = exchange.caller.node + "|" + exchange.caller.user + "|" + exchange.variables.at("path") +
                            "|" + exchange.query("upload");
    return options.storage_root + uploads_folder + "/" + security::sha256_hex(who).substr(0, 40) + ".part";
}

Result<std::uint64_t> number_of(const Exchange& exchange, const std::string& name) {
    const std::string text = exchange.query(name);
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

// The result of a request to the store. A thread of the pool makes it, and the loop makes the answer from it.
struct Outcome {
    int status = 200;
    std::optional<Error> error;
    json body = json::object();
    bool in_place = false;   // true: the last piece of an upload was written, and the file was moved to its place
    std::int64_t grown = 0;  // bytes by which this request has made the run's files larger; negative: smaller
};
Outcome failed(Error error) { return {.status = http_status(error), .error = std::move(error)}; }
Outcome done(const Status& status, int code) {
    if (!status) return failed(status.error());
    return {.status = code};
}

void answer_with(Exchange& exchange, Outcome outcome) {
    if (!outcome.error) return reply_json(exchange, outcome.status, std::move(outcome.body));
    if (outcome.status != 412) return refuse(exchange, *outcome.error);
    exchange.responder->send(net::Response{.status = 412, .body = error_body(*outcome.error, {})});
}

// Runs `work` on the pool, and answers with its result. `first` runs on the loop before the answer is made.
template <class Work>
void on_store(
    const Exchange& exchange, const HeadOptions& options, Work work,
    std::function<void(const Outcome&)> first = [](const Outcome&) {}) {
    exchange.background.offload_at(
        options.storage_root,
        [root = options.storage_root, leftover = exchange.request.body_file, work] {
            auto store = storage::open_file_store(root);
            Outcome outcome = store ? work(**store) : failed(store.error());
            std::error_code ignored;
            if (!leftover.empty()) fs::remove(leftover, ignored);
            return outcome;
        },
        failed,
        [kept = exchange, first = std::move(first)](Outcome outcome) mutable {
            first(outcome);
            guarded(kept, [&] { answer_with(kept, std::move(outcome)); });
        });
}

// Like on_store; also counts the growth of `path`, in bytes, for the run's user.
template <class Work>
void write_in_store(
    const Exchange& exchange, const HeadOptions& options, StoredFiles& stored, const std::string& path, Work work,
    std::function<void(const Outcome&)> first = [](const Outcome&) {}) {
    const auto counted = [path, work, file = options.storage_root + "/" + path](storage::Store& store) {
        const auto before = static_cast<std::int64_t>(size_of(file));
        Outcome outcome = work(store);
        outcome.grown += static_cast<std::int64_t>(size_of(file)) - before;
        return outcome;
    };
    on_store(exchange, options, counted, [&stored, path, first = std::move(first)](const Outcome& outcome) {
        if (outcome.grown != 0) stored.grew(path, outcome.grown);
        first(outcome);
    });
}

// Returns the body's bytes, if they are few enough for memory. Larger files are uploaded as a whole file, or in pieces.
Result<std::string> bytes_of_body(const std::string& body_file) {
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

// Appends a piece of an upload. Refuses a piece that does not begin at the end of the present bytes, with their number.
// A piece without bytes moves a complete file that was not moved yet, because the move failed or the head ended.
Outcome take_piece(storage::Store& store, const Piece& piece) {
    const std::uint64_t have = size_of(piece.part);
    if (piece.offset != have)
        return failed({ErrorCode::conflict,
                       std::to_string(have) + " bytes of this upload are here, the piece begins at " +
                           std::to_string(piece.offset),
                       "go on at " + std::to_string(have)});
    const auto bytes = bytes_of_body(piece.body_file);
    if (!bytes) return failed(bytes.error());
    if (have + bytes->size() > piece.total) return failed({ErrorCode::usage, "the pieces are longer than total", ""});
    const std::string part_name = fs::path(piece.part).filename();
    if (auto written = store.append(".uploads/" + part_name, *bytes); !written) return failed(written.error());
    if (have + bytes->size() == piece.total)
        if (auto moved = store.put_file(piece.part, piece.path, /*may_move=*/true, {}); !moved)
            return failed(moved.error());
    const bool whole = have + bytes->size() == piece.total;
    const auto collected = static_cast<std::int64_t>(whole ? have : 0),
               taken = static_cast<std::int64_t>(bytes->size());
    return {.status = 200,
            .error = {},
            .body = {{"bytes", have + bytes->size()}, {"done", whole}},
            .in_place = whole,
            .grown = whole ? -collected : taken};
}

Outcome create_only(storage::Store& store, const std::string& path, const std::string& body_file) {
    const auto bytes = bytes_of_body(body_file);
    if (!bytes) return failed(bytes.error());
    const auto created = store.create(path, *bytes);
    if (!created) return failed(created.error());
    if (*created) return {.status = 201};
    return {.status = 412, .error = Error{ErrorCode::conflict, path + " exists", ""}};
}

Outcome append_to(storage::Store& store, const std::string& path, const std::string& body_file) {
    const auto bytes = bytes_of_body(body_file);
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
    for (const storage::StoreEntry& entry : *entries)
        if (!entry.path.starts_with(".uploads/")) items.push_back({{"path", entry.path}, {"bytes", entry.bytes}});
    return {.status = 200, .error = {}, .body = {{"items", std::move(items)}}};
}

void put_piece(Exchange& exchange, const HeadOptions& options, PartUploads& parts, StoredFiles& stored) {
    const auto offset = number_of(exchange, "offset"), total = number_of(exchange, "total");
    const Piece piece{upload_file(exchange, options), exchange.variables["path"], exchange.request.body_file,
                      offset ? *offset : 0, total ? *total : 0};
    const bool readable = offset && total;
    const bool alone = readable && parts.begin(piece.part, piece.offset);
    if (!alone) drop_body(exchange);
    if (!readable) return refuse(exchange, offset ? total.error() : offset.error());
    if (!alone)
        return refuse(exchange, {ErrorCode::conflict, "a piece of this upload is still being written",
                                 "ask in a moment how much of it is here"});
    write_in_store(
        exchange, options, stored, piece.path, [piece](storage::Store& store) { return take_piece(store, piece); },
        [&parts, part = piece.part](const Outcome& outcome) {
            parts.end(part);
            if (outcome.in_place) parts.in_place(part);
        });
}

}  // namespace

void get_storage(Exchange& exchange, const HeadOptions& options, const PartUploads& parts) {
    const std::string path = exchange.variables["path"];
    const Status named = storage_name(path);
    if (!named && !(path.empty() && exchange.asked("list"))) return refuse(exchange, named.error());
    if (auto refused = refusal_of(exchange, Touch::read)) return exchange.responder->send(std::move(*refused));
    if (exchange.asked("list"))
        return on_store(exchange, options, [path](storage::Store& store) { return listing(store, path); });
    if (!exchange.query("upload").empty()) {
        const std::string part = upload_file(exchange, options);
        const bool done = parts.done(part);
        return on_store(exchange, options, [part, done](storage::Store&) -> Outcome {
            return {.status = 200, .error = {}, .body = {{"bytes", size_of(part)}, {"done", done}}};
        });
    }
    send_plain(exchange, options.storage_root, [path, root = options.storage_root]() -> Result<storage::Descriptor> {
        const auto top = storage::open_top(root);
        if (!top) return top.error();
        auto file = open_plain(*top, path);
        if (file || file.error().code == ErrorCode::unauthorised) return file;
        return Error{ErrorCode::not_found, "cluster://" + path + " does not exist", ""};
    });
}

void put_storage(Exchange& exchange, const HeadOptions& options, PartUploads& parts, StoredFiles& stored) {
    const std::string path = exchange.variables["path"], body_file = exchange.request.body_file;
    const Status named = storage_name(path);
    auto refused = named ? refusal_of(exchange, Touch::write) : std::nullopt;
    if (!named || refused) {
        drop_body(exchange);
        return named ? exchange.responder->send(std::move(*refused)) : refuse(exchange, named.error());
    }
    const auto write = [&](auto work) { write_in_store(exchange, options, stored, path, work); };
    if (!exchange.query("upload").empty()) return put_piece(exchange, options, parts, stored);
    if (exchange.request.header("if-none-match") == "*")
        return write([=](storage::Store& store) { return create_only(store, path, body_file); });
    if (exchange.asked("append"))
        return write([=](storage::Store& store) { return append_to(store, path, body_file); });
    write([=](storage::Store& store) { return whole_file(store, path, body_file); });
}

void delete_storage(Exchange& exchange, const HeadOptions& options, StoredFiles& stored) {
    const std::string path = exchange.variables["path"];
    if (const Status named = storage_name(path); !named) return refuse(exchange, named.error());
    if (auto refused = refusal_of(exchange, Touch::write)) return exchange.responder->send(std::move(*refused));
    if (!exchange.asked("tree"))
        return write_in_store(exchange, options, stored, path,
                              [path](storage::Store& store) { return done(store.remove(path), 200); });
    on_store(
        exchange, options,
        [path, root = options.storage_root](storage::Store& store) {
            const std::int64_t before = stored_bytes_below(root + "/" + path);
            Outcome outcome = done(store.remove_tree(path), 200);
            outcome.grown = stored_bytes_below(root + "/" + path) - before;
            return outcome;
        },
        [&stored, path](const Outcome& outcome) { stored.grew(path, outcome.grown); });
}

}  // namespace rtrain::head
