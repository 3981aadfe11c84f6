// rtrain storage gc: removes what no run will ever read again. Never of a run that has not ended, never what is
// committed on the live branch; storage/checkpoint decides what that is.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cmd/invocation.hpp"
#include "cmd/process.hpp"
#include "cmd/units.hpp"
#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

struct Found {
    std::unique_ptr<storage::Store> store;
    std::string root;
    std::map<std::string, std::vector<storage::Garbage>> by_run;
    std::int64_t bytes = 0;
    std::size_t count = 0;
};

// `path` is a storage path or one run's directory below it.
Result<Found> look(Invocation& call, const fs::path& path) {
    std::error_code failed;
    if (!fs::is_directory(path, failed))
        return Error{.code = ErrorCode::not_found,
                     .message = path.string() + " is not a directory",
                     .next = "give a storage path, or a run's directory below it"};
    const bool one_run = fs::exists(path / "run.json", failed);
    Found found;
    found.root = (one_run ? path.parent_path() : path).string();
    Result<std::unique_ptr<storage::Store>> store = storage::open_file_store(found.root);
    if (!store) return store.error();
    found.store = std::move(*store);
    Result<std::vector<std::string>> runs =
        one_run ? Result<std::vector<std::string>>(std::vector{path.filename().string()})
                : storage::list_runs(*found.store);
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
    fs::path path = absolute(call.arguments.argument(0));
    if (!path.has_filename()) path = path.parent_path();
    Result<Found> found = look(call, path);
    if (!found) return found.error();
    const bool dry = call.arguments.has("dry-run");
    if (!dry && found->count > 0)
        if (Status sure = confirm(call, std::to_string(found->count) + " entries, " + bytes_text(found->bytes) +
                                            ", will be removed below " + path.string() + ".");
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
