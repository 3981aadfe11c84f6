// Serves the files of a run's directory that this machine can read, for drivers without a mount. Stores the small
// values that a run's workers and driver exchange (a return value, the result of a validation). A value exists as long
// as the run's record.
#include <fcntl.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/json_text.hpp"
#include "base/percent.hpp"
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/base/clock.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/head/base/limits.hpp"
#include "daemon/head/base/run_locks.hpp"
#include "daemon/head/files/run_header.hpp"
#include "daemon/head/requests/audit.hpp"
#include "daemon/head/requests/file_answers.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/protocol/group.hpp"
#include "daemon/protocol/metric_numbers.hpp"
#include "storage/checkpoint/run_directory.hpp"
#include "storage/uri/files/file_rights.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;
// Prefixes of the keys of a checkpoint's values: the state of its validation, and whether a trial that starts from it
// needs it. Both kinds can protect the checkpoint from deletion.
constexpr std::string_view validation_prefix = "validation-", hold_prefix = "held-";

// The directory of a run on this machine: `base`/`name`. `base` is empty if this machine cannot read it.
struct Place {
    std::string base, name, storage_path;
    std::string user;  // the user that run.json must name; empty: any user
};

Place place_of(const Exchange& exchange, const HeadOptions& options, const Run& run) {
    Place place{.base = {}, .name = run.name, .storage_path = run.storage_path, .user = {}};
    if (!is_admin(exchange.caller)) place.user = exchange.caller.user;
    const auto uri = storage::parse_uri(run.storage_path.empty() ? "cluster://" : run.storage_path);
    if (!uri) return place;
    if (uri->scheme == storage::Scheme::cluster) place.base = options.storage_root;
    if (uri->scheme == storage::Scheme::file) place.base = uri->path;
    return place;
}

struct RunDirectory {
    storage::Descriptor directory;
    // the user with whose rights the directory is read; nullopt: the head's own rights
    std::optional<storage::FileUser> owner;
};

// Opens the run's directory. Checks that its run.json names the user, since a user chooses the storage path and it may
// lead anywhere. A root head reads the directory with the rights of the owner of run.json.
Result<RunDirectory> opened(const Place& place) {
    const Error unseen{ErrorCode::not_found,
                       "the head does not see the directory of run " + place.name + " at " + place.storage_path,
                       "read it where that path is mounted, or let runs keep theirs at cluster://"};
    if (place.base.empty()) return unseen;
    const auto base = storage::open_top(place.base);
    if (!base) return unseen;
    auto directory = storage::open_beneath(*base, place.name, O_RDONLY | O_DIRECTORY);
    if (!directory && directory.error().code == ErrorCode::unauthorised) return directory.error();
    const RunHeader header = directory ? run_header(*directory) : RunHeader();
    if (!header.content.is_object()) return unseen;
    if (place.user.empty() || header.content.value("user", json()) == json(place.user))
        return RunDirectory{std::move(*directory), storage::other_owner(header.owner)};
    return Error{ErrorCode::unauthorised,
                 "run.json of " + place.name + " at " + place.storage_path + " does not name " + place.user,
                 "ask an admin"};
}

bool plain_path(const std::string& path) {
    if (path.size() > 1'000 || path.find('\0') != std::string::npos) return false;
    for (const fs::path& part : fs::path(path))
        if (part == ".." || part == "." || part == "/" || part.empty()) return false;
    return true;
}

// Returns true for files that rtrain itself has written: records, code, logs, committed checkpoints. Other files below
// the storage path are not served, since a user chooses that path.
bool ours(const storage::Descriptor& directory, const std::string& path) {
    const auto lies_there = [&](const std::string& name) {
        return storage::open_beneath(directory, name, O_PATH).ok();
    };
    const auto first = path.find('/');
    const std::string top = path.substr(0, first);
    for (const char* name : {"run.json", "result.json", "driver.pkl", "attempts", "code", "logs", "names"})
        if (top == name) return true;
    if (lies_there(top + "/.manifest.json")) return true;
    if (first == std::string::npos || !lies_there("names/" + top)) return false;
    for (auto slash = path.find('/', first + 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
        const std::string deeper = path.substr(0, slash);
        if (!protocol::is_checkpoint_directory(deeper) || !lies_there("names/" + deeper)) return false;
        if (lies_there(deeper + "/.manifest.json")) return true;
    }
    return false;
}

Result<json> listed(const Place& place, const std::string& prefix) {
    const auto run = opened(place);
    if (!run) return run.error();
    const storage::WornRights rights(run->owner);
    if (!rights.taken()) return rights.taken().error();
    const auto files = files_beneath(run->directory, prefix);
    json items = json::array();
    if (!files && files.error().code == ErrorCode::unauthorised) return files.error();
    if (!files) return items;  // the run has no such folder
    std::string directory;
    bool shown = false;
    // decided once for each directory: all of its files are shown, or none
    for (const FoundFile& file : *files) {
        const std::string above = file.path.substr(0, std::min(file.path.rfind('/'), file.path.size()));
        if (above != std::exchange(directory, above) || above == file.path) shown = ours(run->directory, file.path);
        if (shown) items.push_back({{"path", file.path}, {"bytes", file.bytes}});
    }
    return items;
}

// Returns the prefix of a key that belongs to a checkpoint's value. Returns an empty text for any other key.
std::string_view prefix_of(const std::string& key) {
    for (const std::string_view prefix : {validation_prefix, hold_prefix})
        if (key.starts_with(prefix)) return prefix;
    return {};
}

bool is_key(const std::string& key) {
    const std::size_t longest = prefix_of(key).empty() ? 100 : 240;
    return !key.empty() && key.size() <= longest && key[0] != '.' &&
           key.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-~%") == key.npos;
}

Error bad_key(const std::string& key) {
    return {ErrorCode::usage, "'" + key + "' is no key", "use letters, digits, '.', '_', '-', '~' and '%'"};
}

// Returns the checkpoint that the key names. The name is percent-encoded, because a checkpoint's directory may lie
// deeper. Returns an empty text if the key is another way to write the same name, so that a checkpoint has only one
// value of each kind.
std::string directory_in(const std::string& key) {
    const std::string_view name = std::string_view(key).substr(prefix_of(key).size());
    const auto directory = storage::percent_decoded(name, storage::Plus::literal);
    const bool canonical = directory && storage::percent_encoded(*directory, storage::Slash::encoded) == name;
    return canonical ? *directory : "";
}

// Returns true if the value protects its checkpoint from deletion: the checkpoint waits for its validation, or a trial
// needs it.
bool spares(std::string_view prefix, const json& value) {
    if (!value.is_object()) return false;
    return value.value("status", json()) == json(prefix == hold_prefix ? "HELD" : "PENDING_VALIDATION");
}

struct ValueWrite {
    std::string directory, key, aside;
    // content of the value; shared between copies, since it may have megabytes
    std::shared_ptr<const std::string> body;
    std::string user;
    const UserBytes* bytes = nullptr;  // where the user's stored bytes are counted
    std::string path() const { return directory + "/" + key; }
};

// Returns the event for a value that changes which checkpoints are kept. The checkpoint's value of the other kind,
// which is stored in the same directory, is taken into account.
std::optional<CheckpointValidated> validation_in(const ValueWrite& write, RunId run, const std::string& score) {
    const std::string_view prefix = prefix_of(write.key);
    const json value = parsed_or_null(*write.body);
    if (prefix.empty() || !value.is_object()) return std::nullopt;
    const std::string_view other = prefix == hold_prefix ? validation_prefix : hold_prefix;
    const auto beside = read_file(write.directory + "/" + std::string(other) + write.key.substr(prefix.size()));
    CheckpointValidated event{.run = run, .directory = directory_in(write.key)};
    event.pending = spares(prefix, value) || (beside && spares(other, parsed_or_null(*beside)));
    event.metrics = protocol::numbers_of(json_text(value.value("metrics", json())), score);
    return event;
}

// Returns true if the key names a checkpoint that the run does not have, or no checkpoint.
bool of_no_checkpoint(const View& view, RunId run, const std::string& key) {
    return !prefix_of(key).empty() && !view.cluster.checkpoints.contains({.run = run, .directory = directory_in(key)});
}

// The content of a run's directory of values.
struct Values {
    std::size_t count = 0;  // number of values that count for the limit; values of checkpoints do not count
    std::vector<std::string> checkpoints;  // keys of the values that belong to checkpoints
};
Values values_in(const std::string& directory) {
    Values values;
    std::error_code none;
    for (fs::directory_iterator at(directory, none), end; !none && at != end; at.increment(none)) {
        std::string key = at->path().filename();
        if (prefix_of(key).empty())
            ++values.count;
        else
            values.checkpoints.push_back(std::move(key));
    }
    return values;
}

std::int64_t size_of_value(const std::string& path) {
    std::error_code none;
    const auto size = fs::file_size(path, none);
    return none ? 0 : static_cast<std::int64_t>(size);
}

struct ValueWritten {
    std::int64_t bytes_before = 0;
    Values beside;
};

// Writes the value's file. Blocks on the disk.
Result<ValueWritten> write_value(const ValueWrite& value) {
    std::error_code failed;
    fs::create_directories(value.directory, failed);
    ValueWritten written{.bytes_before = size_of_value(value.path()), .beside = values_in(value.directory)};
    const auto size = static_cast<std::int64_t>(value.body->size());
    const KeptBytes more{.files = std::max<std::int64_t>(0, size - written.bytes_before)};
    if (const Status may = value.bytes->may_add(value.user, Kept::values, more); !may) return may.error();
    const bool counts = prefix_of(value.key).empty() && !fs::exists(value.path(), failed);
    if (counts && written.beside.count >= limits::values_of_run)
        return Error{ErrorCode::full, "the run has " + std::to_string(limits::values_of_run) + " values already",
                     "write over those that are not needed any more"};
    if (auto done = write_private(value.path(), *value.body, value.aside); !done) return done.error();
    return written;
}

// Removes the values of checkpoints that no longer exist; all values, if the run was removed. Then answers the request.
void reply_without_outdated(Exchange& exchange, RunId run, const ValueWrite& value, const Values& values,
                            std::int64_t written_bytes, UserBytes& bytes) {
    const bool run_is_gone = !exchange.view.cluster.runs.contains(run);
    std::vector<std::string> outdated;
    for (const std::string& key : values.checkpoints)
        if (!run_is_gone && of_no_checkpoint(exchange.view, run, key)) outdated.push_back(value.directory + "/" + key);
    if (run_is_gone) outdated.push_back(value.directory);
    const json answer{{"key", value.key}, {"bytes", written_bytes}};
    if (outdated.empty()) return reply_json(exchange, 200, answer);
    const auto remove = [outdated, run, &bytes]() -> Status {
        for (const std::string& path : outdated) {
            const std::int64_t size = size_of_value(path);
            std::error_code stays;
            if (fs::remove_all(path, stays) == 1) bytes.add(run, Kept::values, {.files = -size});
        }
        return Done{};
    };
    on_pool(exchange, remove, [answer](Exchange& to, const Status&) { reply_json(to, 200, answer); });
}

// Counts a value that was written to the disk, and answers the request.
void value_written(Exchange& exchange, RunId run, const ValueWrite& value, const ValueWritten& written,
                   UserBytes& bytes) {
    const auto size = static_cast<std::int64_t>(value.body->size());
    // bytes are counted only if the run still exists
    bytes.add(run, Kept::values, {.files = size - written.bytes_before});
    reply_without_outdated(exchange, run, value, written.beside, size, bytes);
}

// Returns the key under which a user's values are written on the pool. Work with one key runs one after the other, so
// that a user waits only for their own values.
std::string writing_place(const Run& run) { return "the values of " + run.user; }

struct CheckpointValue {
    std::optional<CheckpointValidated> validated{};
    ValueWritten written{};
    bool is_gone = false;  // true: the checkpoint no longer exists, and nothing was written
};

// Writes a checkpoint's value, unless the checkpoint no longer exists. Blocks on the disk.
Result<CheckpointValue> write_value_of_checkpoint(const ValueWrite& value, RunId run, const std::string& score,
                                                  bool gone) {
    CheckpointValue out{.validated = validation_in(value, run, score), .is_gone = gone};
    if (gone && out.validated && out.validated->pending)
        return Error{ErrorCode::conflict, out.validated->directory + " is not known to the head yet", "try again"};
    if (gone) {
        out.written.beside = values_in(value.directory);
        return out;
    }
    auto written = write_value(value);
    if (!written) return written.error();
    out.written = *std::move(written);
    return out;
}

// Sends the event of a value to the core. Called after the value was written, or after its checkpoint was found
// missing.
void decide_value(Exchange& exchange, RunId run, const ValueWrite& value, CheckpointValue done, UserBytes& bytes) {
    if (done.is_gone) return reply_without_outdated(exchange, run, value, done.written.beside, 0, bytes);
    if (!done.validated) return value_written(exchange, run, value, done.written, bytes);
    exchange.events.take(*std::move(done.validated),
                         [kept = exchange, run, value, written = done.written, &bytes](const Decision&) mutable {
                             value_written(kept, run, value, written, bytes);
                         });
}

// Stores a value of a checkpoint. Such values of one run are written and decided one at a time, since each may change
// which checkpoints are kept.
void put_value_of_checkpoint(Exchange& exchange, const Run& run, const ValueWrite& value, UserBytes& bytes,
                             RunLocks& locks) {
    locks.take(run.id, [kept = exchange, run = run.id, place = writing_place(run),
                        score = run.spec.retention.score_attribute, value, &bytes](const RunLocks::Held& held) {
        const bool gone = of_no_checkpoint(kept.view, run, value.key);
        on_pool_at(
            place, kept, [=] { return write_value_of_checkpoint(value, run, score, gone); },
            [held, run, value, &bytes](Exchange& to, Result<CheckpointValue> done) {
                done ? decide_value(to, run, value, *std::move(done), bytes) : refuse(to, done.error());
            });
    });
}

// Hashes the checkpoint's files and returns their faults. Blocks on the disk for as long as that takes.
Result<std::vector<std::string>> faults_of(const Place& place, const std::string& directory) {
    const auto run = opened(place);
    if (!run) return run.error();
    const storage::WornRights rights(run->owner);
    if (!rights.taken()) return rights.taken().error();
    const auto store = storage::open_file_store(place.base);
    if (!store) return store.error();
    return storage::verify_checkpoint(**store, place.name, directory);
}

}  // namespace

// Verifies the run's checkpoints. Each user's verifications have their own place on the pool, since they take long.
void post_verify(Exchange& exchange, const HeadOptions& options) {
    with_run(exchange, [&](const Run& run) {
        const auto body = body_of(exchange);
        if (!body) return refuse(exchange, body.error());
        const json named = body->value("checkpoint", json());
        const std::string directory = named.is_string() ? named.get<std::string>() : "";
        const auto kept = exchange.view.cluster.checkpoints.find({.run = run.id, .directory = directory});
        if (kept == exchange.view.cluster.checkpoints.end() || kept->second.deleting)
            return refuse(exchange,
                          {ErrorCode::not_found, "run " + run.name + " keeps no checkpoint '" + directory + "'",
                           "rtrain checkpoints list " + run.name});
        const auto record = [id = run.id, directory](Exchange& to, const Result<std::vector<std::string>>& faults) {
            if (!faults) return refuse(to, faults.error());
            audit_detail(to, "checkpoint=" + directory + " faults=" + std::to_string(faults->size()));
            const Auditing scope(to.events, to.audit);
            CheckpointVerified event{.run = id,
                                     .directory = directory,
                                     .wall_ms = wall_ms(),
                                     .faults = static_cast<std::uint32_t>(faults->size())};
            const std::size_t named = std::min<std::size_t>(faults->size(), 100);
            const json answer = {
                {"directory", directory},
                {"faults", faults->size()},
                {"damaged",
                 std::vector<std::string>(faults->begin(), faults->begin() + static_cast<std::ptrdiff_t>(named))}};
            to.events.take(std::move(event),
                           [kept = to, answer](const Decision&) mutable { reply_json(kept, 200, answer); });
        };
        on_pool_at(
            "verify " + exchange.caller.user, exchange,
            [place = place_of(exchange, options, run), directory] { return faults_of(place, directory); }, record);
    });
}

void get_run_file(Exchange& exchange, const HeadOptions& options) {
    with_run(exchange, [&](const Run& run) {
        std::string path = exchange.variables["path"];
        while (path.ends_with('/')) path.pop_back();
        if (!plain_path(path) || (path.empty() && !exchange.asked("list")))
            return refuse(exchange, {ErrorCode::usage, "'" + path + "' is no path below the run's directory",
                                     "use relative paths without '..'"});
        const Place place = place_of(exchange, options, run);
        if (exchange.asked("list"))
            return on_pool_at(
                place.base, exchange, [place, path] { return listed(place, path); },
                [](Exchange& kept, Result<json> items) {
                    if (!items) return refuse(kept, items.error());
                    reply_json(kept, 200, {{"items", std::move(*items)}});
                });
        send_plain(exchange, place.base, [place, path]() -> Result<storage::Descriptor> {
            const auto run = opened(place);
            if (!run) return run.error();
            const storage::WornRights rights(run->owner);
            if (!rights.taken()) return rights.taken().error();
            const Error none{ErrorCode::not_found, path + " of run " + place.name + " does not exist", ""};
            if (!ours(run->directory, path)) return none;
            auto file = open_plain(run->directory, path);
            return file || file.error().code == ErrorCode::unauthorised ? std::move(file) : none;
        });
    });
}

namespace {

json values_listed(const std::string& directory) {
    json items = json::array();
    std::error_code none;
    for (fs::directory_iterator at(directory, none), end; !none && at != end; at.increment(none)) {
        std::error_code gone;
        const auto bytes = at->file_size(gone);
        if (const std::string key = at->path().filename(); is_key(key) && !gone)
            items.push_back({{"key", key}, {"bytes", bytes}});
    }
    return items;
}

}  // namespace

void get_values(Exchange& exchange, const HeadOptions& options) {
    with_run(exchange, [&](const Run& run) {
        read_on_pool(
            exchange, [directory = values_directory(options, run.id)] { return values_listed(directory); },
            [](Exchange& to, json items) { reply_json(to, 200, {{"items", std::move(items)}}); });
    });
}

void get_value(Exchange& exchange, const HeadOptions& options) {
    with_run(exchange, [&](const Run& run) {
        const std::string key = exchange.variables["key"];
        if (!is_key(key)) return refuse(exchange, bad_key(key));
        const Error none{ErrorCode::not_found, "run " + run.name + " has no value " + key, ""};
        read_on_pool(
            exchange, [path = values_directory(options, run.id) + "/" + key] { return read_file(path); },
            [none](Exchange& to, auto text) {
                if (!text) return refuse(to, none);
                to.responder->send(
                    net::Response{.status = 200, .body = std::move(*text), .content_type = "application/octet-stream"});
            });
    });
}

void put_value(Exchange& exchange, const HeadOptions& options, UserBytes& bytes, RunLocks& locks) {
    with_run(exchange, [&](const Run& run) {
        const std::string key = exchange.variables["key"];
        if (!is_key(key)) return refuse(exchange, bad_key(key));
        if (exchange.request.body.size() > limits::value_bytes)
            return refuse(exchange,
                          {ErrorCode::usage, "the value is larger than 4 MiB", "store it as a blob, its hash here"});
        const ValueWrite value{.directory = values_directory(options, run.id),
                               .key = key,
                               .aside = scratch_path(options),
                               .body = std::make_shared<const std::string>(std::move(exchange.request.body)),
                               .user = run.user,
                               .bytes = &bytes};
        if (!prefix_of(key).empty()) return put_value_of_checkpoint(exchange, run, value, bytes, locks);
        on_pool_at(
            writing_place(run), exchange, [value] { return write_value(value); },
            [value, id = run.id, &bytes](Exchange& kept, const Result<ValueWritten>& written) {
                if (!written) return refuse(kept, written.error());
                value_written(kept, id, value, *written, bytes);
            });
    });
}

}  // namespace rtrain::head
