// rtrain storage gc: removes files that no run will read again. It keeps runs that have not ended and checkpoints that
// are committed on the live branch, as storage/checkpoint defines them. The head supplies states that are not in
// storage yet. `list` and `get` print and copy files of any storage, for machines without a mount of it.
#include <fnmatch.h>

#include <atomic>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "base/bucket_secrets.hpp"
#include "cmd/client/run_store.hpp"
#include "cmd/line/invocation.hpp"
#include "cmd/text/process.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"
#include "storage/checkpoint/run_directory.hpp"
#include "storage/uri/open_store.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;
constexpr std::size_t bucket_at_once = 8;

struct Found {
    std::shared_ptr<storage::Store> store;
    std::string root;
    std::map<std::string, std::vector<storage::Garbage>> by_run;
    std::int64_t bytes = 0;
    std::size_t count = 0;
};

struct StoragePlace {
    std::shared_ptr<storage::Store> store;
    std::string root, run;  // name of the run; empty: all runs
};

// Returns the place of cluster:// or cluster://NAME, which is on the head.
Result<StoragePlace> on_head(Invocation& call, const std::string& text) {
    Result<RunStore> opened = open_run_store(call, text);
    if (!opened) return opened.error();
    return StoragePlace{.store = std::move(opened->store), .root = "cluster:/", .run = opened->run_name};
}

// Returns the place of a storage path, or of one run's directory below it.
Result<StoragePlace> on_disk(fs::path path) {
    if (!path.has_filename()) path = path.parent_path();
    std::error_code failed;
    if (!fs::is_directory(path, failed))
        return Error{.code = ErrorCode::not_found,
                     .message = path.string() + " is not a directory on this machine",
                     .next =
                         "run it where that storage is mounted, on a node for example; a whole run's files are "
                         "removed by the agents: rtrain runs rm NAME --files"};
    const bool one_run = fs::exists(path / "run.json", failed);
    const std::string root = (one_run ? path.parent_path() : path).string();
    Result<std::unique_ptr<storage::Store>> store = storage::open_file_store(root);
    if (!store) return store.error();
    return StoragePlace{
        .store = std::move(*store), .root = root, .run = one_run ? path.filename().string() : std::string()};
}

bool is_in_bucket(const std::string& text) { return bucket_secrets(text) != nullptr; }

// Returns the place of a storage path in a bucket, or of one run's directory.
Result<StoragePlace> in_bucket(std::string root) {
    while (root.ends_with('/')) root.pop_back();
    Result<std::unique_ptr<storage::Store>> store = storage::open_store(root);
    if (!store) return store.error();
    const Result<std::string> header = (*store)->get("run.json");
    if (!header && header.error().code != ErrorCode::not_found) return header.error();
    const auto slash = root.rfind('/');
    if (!header || slash <= root.find("://") + 2)
        return StoragePlace{.store = std::move(*store), .root = root, .run = {}};
    Result<std::unique_ptr<storage::Store>> above = storage::open_store(root.substr(0, slash));
    if (!above) return above.error();
    return StoragePlace{.store = std::move(*above), .root = root.substr(0, slash), .run = root.substr(slash + 1)};
}

Result<StoragePlace> place_of(Invocation& call, const std::string& text) {
    if (text.starts_with("cluster://")) return on_head(call, text);
    if (is_in_bucket(text)) return in_bucket(text);
    return on_disk(absolute(text));
}

struct Live {
    bool asked = false;
    std::string head;                          // address of the head
    std::map<std::string, std::string> names;  // key: the run's name; value: its state
};

// Returns the live runs of the head. A resumed or restored run claims its attempt when it is prepared. Until then
// storage has the old result.json alone, and only the head's record shows that a checkpoint of a dead branch is needed.
// Runs are compared by name, because the path of a storage differs between machines.
Result<Live> fetch_live_runs(Invocation& call) {
    Result<Api> api = Api::open(call);
    Result<json> answer = api ? api->list("/v1/runs?limit=500") : Result<json>(api.error());
    if (!answer && answer.error().code == ErrorCode::unreachable) {
        call.out.talk(
            "no head could be asked which runs live (" + answer.error().message +
            "): going by what lies on storage alone, which does not show a run that waits to go on from there");
        return Live{};
    }
    if (!answer) return answer.error();
    Live live{.asked = true, .head = api->address(), .names = {}};
    for (const json& run : (*answer)["items"]) {
        if (is_terminal(run)) continue;
        const std::string from = string_of(run, "restored_from");
        live.names[string_of(run, "name")] = "run " + string_of(run, "run_id") + " is " + string_of(run, "state") +
                                             ", in " + string_of(run, "run_path") +
                                             (from.empty() ? "" : ", from " + from);
    }
    return live;
}

bool leave_alone(Invocation& call, const Live& live, const std::string& path, const std::string& name) {
    const auto lives = live.names.find(name);
    if (lives == live.names.end()) return false;
    call.out.talk("left alone: " + path + ": the head at " + live.head + " says that " + lives->second);
    return true;
}

Result<Found> look(Invocation& call, const StoragePlace& place, const Live& live) {
    Found garbage;
    garbage.root = place.root;
    garbage.store = place.store;
    Result<std::vector<std::string>> runs = place.run.empty()
                                                ? storage::list_runs(*garbage.store)
                                                : Result<std::vector<std::string>>(std::vector{place.run});
    if (!runs) return runs.error();
    for (const std::string& run : *runs) {
        if (leave_alone(call, live, garbage.root + "/" + run, run)) continue;
        Result<storage::GarbagePlan> plan = storage::plan_garbage(*garbage.store, run);
        if (!plan) return plan.error();
        if (!plan->terminal) {
            call.out.talk("left alone: " + garbage.root + "/" + run + " has not ended");
            continue;
        }
        for (const storage::Garbage& leftover : plan->items) {
            garbage.bytes += leftover.bytes;
            ++garbage.count;
        }
        garbage.by_run[run] = std::move(plan->items);
    }
    return garbage;
}

// Fetches the live runs again, because a run may have been resumed before the user confirmed.
Status look_again(Invocation& call, const Live& before, Found& garbage) {
    if (!before.asked || garbage.count == 0) return Done{};
    Result<Live> now = fetch_live_runs(call);
    if (!now) return now.error();
    if (!now->asked)
        return Error{.code = ErrorCode::unreachable,
                     .message = "the head at " + before.head + " went away meanwhile: nothing was removed",
                     .next = "run it again: without a head it goes by what lies on storage"};
    std::erase_if(garbage.by_run, [&](const auto& run_garbage) {
        return leave_alone(call, *now, garbage.root + "/" + run_garbage.first, run_garbage.first);
    });
    return Done{};
}

Result<int> gc(Invocation& call) {
    const std::string path = call.arguments.argument(0);
    const Result<StoragePlace> place = place_of(call, path);
    if (!place) return place.error();
    const Result<Live> live = fetch_live_runs(call);
    if (!live) return live.error();
    Result<Found> garbage = look(call, *place, *live);
    if (!garbage) return garbage.error();
    const bool dry = call.arguments.has("dry-run");
    if (!dry && garbage->count > 0) {
        if (Status sure = confirm(call, std::to_string(garbage->count) + " entries, " + bytes_text(garbage->bytes) +
                                            ", will be removed below " + path + ".");
            !sure)
            return sure.error();
        if (Status looked = look_again(call, *live, *garbage); !looked) return looked.error();
    }
    json items = json::array();
    std::int64_t bytes = 0;
    for (const auto& [run, list] : garbage->by_run)
        for (const storage::Garbage& leftover : list) {
            if (!dry)
                if (Status gone = storage::remove_garbage(*garbage->store, run, leftover); !gone) return gone.error();
            bytes += leftover.bytes;
            items.push_back({{"path", garbage->root + "/" + leftover.path},
                             {"run", run},
                             {"bytes", leftover.bytes},
                             {"why", leftover.why},
                             {"removed", !dry}});
        }
    call.out.list({{"items", items}, {"bytes", bytes}, {"dry_run", dry}},
                  {{"PATH", "path"}, {"SIZE", "bytes", Shape::bytes}, {"WHY", "why"}, {"REMOVED", "removed"}}, "path",
                  "there is nothing to remove");
    return 0;
}

Result<int> list_files(Invocation& call) {
    Result<StoredPath> place = open_stored_path(call, call.arguments.argument(0));
    if (!place) return place.error();
    Result<std::vector<storage::StoreEntry>> entries = place->store->list(place->path);
    if (!entries) return entries.error();
    json items = json::array();
    for (const storage::StoreEntry& file : *entries)
        items.push_back({{"path", place->root + file.path}, {"bytes", file.bytes}});
    call.out.list({{"items", items}}, {{"PATH", "path"}, {"SIZE", "bytes", Shape::bytes}}, "path",
                  "there are no files");
    return 0;
}

struct Copy {
    std::string from, to;
    std::int64_t bytes = 0;
};

// Copies files: many at once for a bucket, whose requests are slow, and one after the other for a disk.
Status copy_all(storage::Store& store, const std::vector<Copy>& copies, bool bucket) {
    std::atomic<std::size_t> next = 0;
    std::mutex failed_mutex;
    std::optional<Error> failed;
    const auto work = [&] {
        for (std::size_t index = next++; index < copies.size(); index = next++) {
            const Status got = store.get_file(copies[index].from, copies[index].to, {});
            if (got) continue;
            const std::lock_guard lock(failed_mutex);
            if (!failed) failed = got.error();
            next = copies.size();
        }
    };
    std::vector<std::thread> helpers;
    const std::size_t threads = bucket ? std::min<std::size_t>(bucket_at_once, copies.size()) : 1;
    while (helpers.size() + 1 < threads) helpers.emplace_back(work);
    work();
    for (std::thread& helper : helpers) helper.join();
    if (failed) return *failed;
    return Done{};
}

// Copies one file, all files of a directory, or its files whose path matches `--only`.
Result<int> get(Invocation& call) {
    const std::string from = call.arguments.argument(0), to = absolute(call.arguments.argument(1));
    Result<StoredPath> place = open_stored_path(call, from);
    if (!place) return place.error();
    Result<std::vector<storage::StoreEntry>> entries = place->store->list(place->path);
    if (!entries) return entries.error();
    if (entries->empty())
        return Error{.code = ErrorCode::not_found,
                     .message = from + " does not exist",
                     .next = "rtrain storage list shows what is there"};
    const std::string only = call.arguments.text("only", "*");
    std::vector<Copy> copies;
    std::int64_t bytes = 0;
    json items = json::array();
    for (const storage::StoreEntry& file : *entries) {
        const std::string below = file.path == place->path
                                      ? std::string()
                                      : file.path.substr(place->path.empty() ? 0 : place->path.size() + 1);
        if (!below.empty() && ::fnmatch(only.c_str(), below.c_str(), 0) != 0) continue;
        copies.push_back({.from = file.path, .to = below.empty() ? to : to + "/" + below, .bytes = file.bytes});
        items.push_back({{"path", place->root + file.path}, {"file", copies.back().to}, {"bytes", file.bytes}});
        bytes += file.bytes;
    }
    if (Status got = copy_all(*place->store, copies, is_in_bucket(place->root)); !got) return got.error();
    call.out.list({{"items", items}, {"bytes", bytes}},
                  {{"PATH", "path"}, {"FILE", "file"}, {"SIZE", "bytes", Shape::bytes}}, "file",
                  ("no file below " + from + " is like " + only).c_str());
    return 0;
}

}  // namespace

std::vector<Command> storage_commands() {
    return {{.words = "storage list",
             .group = "Checkpoints",
             .help = "all files below a path, a bucket or cluster://",
             .arguments = {{.name = "PATH", .value = Value::file}},
             .flags = {},
             .handler = list_files},
            {.words = "storage get",
             .group = "Checkpoints",
             .help = "copy a file or a directory from a path, a bucket or cluster:// to this machine",
             .arguments = {{.name = "PATH", .value = Value::file}, {.name = "TO", .value = Value::file}},
             .flags = {{.name = "only",
                        .takes = Value::text,
                        .shown = "PATTERN",
                        .help = "of a directory: files whose path below it is like this (* and ?)"}},
             .handler = get},
            {.words = "storage gc",
             .group = "Checkpoints",
             .help = "remove what no run will ever read: uncommitted and dead checkpoints of ended runs",
             .arguments = {{.name = "PATH", .value = Value::file}},
             .flags = {{.name = "dry-run", .help = "list it, remove nothing"}},
             .handler = gc}};
}

}  // namespace rtrain::cmd
