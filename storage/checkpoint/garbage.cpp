// Finds the files in a finished run's directory that are never read again. It only makes a plan; the caller decides
// whether to remove them.

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/checkpoint_name.hpp"
#include "storage/checkpoint/layout.hpp"
#include "storage/checkpoint/listing.hpp"
#include "storage/uri/files/tree.hpp"

namespace rtrain::storage {
namespace {

namespace fs = std::filesystem;

// Returns true if the run's last attempt has ended. The last attempt is the one with the highest number on storage,
// because a restored run counts its own `attempts` from one again. Without a head (local mode) `attempts` is that
// number.
Result<bool> is_terminal(Store& store, const std::string& run_name, const Listing& listing) {
    const auto value = read_object(store, run_name + "/result.json");
    if (!value && value.error().code == ErrorCode::not_found) return false;
    if (!value) return value.error();
    const auto last = value->value("attempt", value->value("attempts", nlohmann::json()));
    if (!last.is_number_unsigned()) return false;
    return listing.claims.empty() || listing.claims.rbegin()->first <= last.get<std::uint64_t>();
}

std::set<std::string> named_as_origin(const Listing& listing) {
    std::set<std::string> names;
    for (const auto& [number, origin] : listing.origins) names.insert(origin.from);
    return names;
}

// Returns the directory of the checkpoint, committed or not, that contains this file of the run; empty if there is
// none.
std::string checkpoint_around(const std::string& path, const std::string& run_name, const Listing& listing) {
    std::size_t parts = 1;
    for (auto slash = path.find('/'); slash != std::string::npos && parts <= checkpoint_parts_most; ++parts) {
        const std::string directory = path.substr(0, slash);
        if ((parts == 1 && (attempt_of(directory) || directory.starts_with(".staging"))) ||
            claims_name(listing, run_name, directory))
            return directory;
        slash = path.find('/', slash + 1);
    }
    return "";
}

std::string why_garbage(const std::string& directory, const Listing& listing, const std::set<std::string>& origins) {
    for (const CommittedCheckpoint& committed : listing.checkpoints) {
        if (committed.manifest.directory != directory) continue;
        if (committed.live || origins.contains(directory)) return "";
        return "committed on a dead branch, by attempt " + std::to_string(committed.manifest.attempt);
    }
    return "never committed";
}

// Adds unfinished files that an ended writer left behind. `Store` does not list them.
void add_leftovers(Store& store, const std::string& run_name, GarbagePlan& plan) {
    if (!store.local()) return;
    std::error_code failed;
    fs::recursive_directory_iterator walk(store.local_path(run_name), failed), end;
    const std::string top = store.local_path(run_name);
    for (; !failed && walk != end; walk.increment(failed)) {
        if (!walk->path().filename().string().starts_with(".rtrain-")) continue;
        std::error_code unknown;
        const auto bytes = walk->is_regular_file(unknown) ? walk->file_size(unknown) : 0;
        plan.items.push_back({run_name + walk->path().string().substr(top.size()), static_cast<std::int64_t>(bytes),
                              "left behind by a write that was cut off"});
        if (walk->is_directory(unknown)) walk.disable_recursion_pending();
    }
}

}  // namespace

Result<GarbagePlan> plan_garbage(Store& store, const std::string& run_name) {
    const auto listing = read_listing(store, run_name);
    if (!listing) return listing.error();
    const auto terminal = is_terminal(store, run_name, *listing);
    if (!terminal) return terminal.error();
    GarbagePlan plan{.terminal = *terminal};
    std::map<std::string, std::int64_t> directories;
    for (const StoreEntry& entry : listing->files) {
        const std::string around = checkpoint_around(entry.path.substr(run_name.size() + 1), run_name, *listing);
        if (!around.empty() && !holds_claims(listing->files, run_name, around)) directories[around] += entry.bytes;
    }
    const auto origins = named_as_origin(*listing);
    for (const auto& [directory, bytes] : directories) {
        const std::string why = why_garbage(directory, *listing, origins);
        if (!why.empty()) plan.items.push_back({run_name + "/" + directory, bytes, why});
    }
    add_leftovers(store, run_name, plan);
    return plan;
}

Status remove_garbage(Store& store, const std::string& run_name, const Garbage& garbage) {
    const std::string directory = garbage.path.substr(std::min(garbage.path.size(), run_name.size() + 1));
    const auto owner = owner_of(store, run_name, directory);
    if (owner || owner.error().code != ErrorCode::not_found) return delete_checkpoint(store, run_name, directory);
    if (!store.local()) return store.remove_tree(garbage.path);
    const auto top = store.top();
    if (!top) return top.error().code == ErrorCode::not_found ? Status(Done{}) : top.error();
    return remove_all_beneath(*top, garbage.path);  // Names of this form are reserved for the Store.
}

Result<std::vector<std::string>> list_runs(Store& store) {
    const auto files = store.list("");
    if (!files) return files.error();
    std::vector<std::string> names;
    for (const StoreEntry& entry : *files)
        if (entry.path.ends_with("/run.json") && entry.path.find('/') == entry.path.size() - 9)
            names.push_back(entry.path.substr(0, entry.path.size() - 9));
    return names;
}

}  // namespace rtrain::storage
