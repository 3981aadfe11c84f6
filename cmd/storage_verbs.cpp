// rtrain storage gc: removes what no run will ever read again. Never of a run that has not ended, never what is
// committed on the live branch; storage/checkpoint decides what that is.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cmd/invocation.hpp"
#include "cmd/process.hpp"
#include "cmd/run_store.hpp"
#include "cmd/units.hpp"
#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Found {
    std::shared_ptr<storage::Store> store;
    std::string root;
    std::map<std::string, std::vector<storage::Garbage>> by_run;
    std::int64_t bytes = 0;
    std::size_t count = 0;
};

struct Place {
    std::shared_ptr<storage::Store> store;
    std::string root, run;  // run empty: all of them
};

// On the head: cluster://, or cluster://NAME.
Result<Place> on_head(Invocation& call, const std::string& text) {
    Result<RunStore> opened = open_run_store(call, text);
    if (!opened) return opened.error();
    return Place{.store = std::move(opened->store), .root = "cluster:/", .run = opened->run_name};
}

// A storage path, or one run's directory below it.
Result<Place> on_disk(fs::path path) {
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
    return Place{.store = std::move(*store), .root = root, .run = one_run ? path.filename().string() : std::string()};
}

Result<Found> look(Invocation& call, const Place& place) {
    Found found;
    found.root = place.root;
    found.store = place.store;
    Result<std::vector<std::string>> runs =
        place.run.empty() ? storage::list_runs(*found.store) : Result<std::vector<std::string>>(std::vector{place.run});
    if (!runs) return runs.error();
    for (const std::string& run : *runs) {
        Result<storage::GarbagePlan> plan = storage::plan_garbage(*found.store, run);
        if (!plan) return plan.error();
        if (!plan->terminal) {
            call.out.talk("left alone: " + found.root + "/" + run + " has not ended");
            continue;
        }
        for (const storage::Garbage& one : plan->items) {
            found.bytes += one.bytes;
            ++found.count;
        }
        found.by_run[run] = std::move(plan->items);
    }
    return found;
}

Result<int> gc(Invocation& call) {
    const std::string path = call.arguments.argument(0);
    const Result<Place> place = path.starts_with("cluster://") ? on_head(call, path) : on_disk(absolute(path));
    if (!place) return place.error();
    Result<Found> found = look(call, *place);
    if (!found) return found.error();
    const bool dry = call.arguments.has("dry-run");
    if (!dry && found->count > 0)
        if (Status sure = confirm(call, std::to_string(found->count) + " entries, " + bytes_text(found->bytes) +
                                            ", will be removed below " + path + ".");
            !sure)
            return sure.error();
    json items = json::array();
    for (const auto& [run, list] : found->by_run)
        for (const storage::Garbage& one : list) {
            if (!dry)
                if (Status gone = storage::remove_garbage(*found->store, run, one); !gone) return gone.error();
            items.push_back({{"path", found->root + "/" + one.path},
                             {"run", run},
                             {"bytes", one.bytes},
                             {"why", one.why},
                             {"removed", !dry}});
        }
    call.out.list({{"items", items}, {"bytes", found->bytes}, {"dry_run", dry}},
                  {{"PATH", "path"}, {"SIZE", "bytes", Shape::bytes}, {"WHY", "why"}, {"REMOVED", "removed"}}, "path",
                  "there is nothing to remove");
    return 0;
}

}  // namespace

std::vector<Command> storage_commands() {
    return {{.words = "storage gc",
             .group = "Checkpoints",
             .help = "remove what no run will ever read: uncommitted and dead checkpoints of ended runs",
             .arguments = {{.name = "PATH", .value = Value::file}},
             .flags = {{.name = "dry-run", .help = "list it, remove nothing"}},
             .handler = gc}};
}

}  // namespace rtrain::cmd
