// Finds the live branch: starts at the highest attempt that has begun, and follows each attempt's `from` to the attempt
// before. An older attempt's commits count only up to the checkpoint from which the next attempt started. Its later
// commits, and those of another cluster, are on a dead branch.

#include "storage/checkpoint/listing.hpp"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/checkpoint_name.hpp"
#include "storage/checkpoint/layout.hpp"

namespace rtrain::storage {
namespace {

using nlohmann::json;

struct Place {  // The parts of a path below the run's directory.
    std::string_view top, rest;
};
Place place_of(const StoreEntry& entry, const std::string& run_name) {
    std::string_view path = entry.path;
    path.remove_prefix(std::min(path.size(), run_name.size() + 1));
    const auto slash = path.find('/');
    if (slash == std::string_view::npos) return {path, ""};
    return {path.substr(0, slash), path.substr(slash + 1)};
}

Result<CommittedCheckpoint> read_commit(Store& store, const StoreEntry& entry, const std::string& directory,
                                        const std::optional<DirectoryClaim>& claim) {
    const auto text = store.get(entry.path);
    if (!text && text.error().code != ErrorCode::not_found && text.error().code != ErrorCode::damaged)
        return text.error();
    const std::uint64_t report = claim ? claim->report : 0;
    CommittedCheckpoint committed{.manifest = {.directory = directory,
                                               .attempt = claim ? claim->attempt : 0,
                                               .report = report != 0 ? report : counter_of(directory)}};
    auto manifest = text ? decode_manifest(*text) : Result<Manifest>(text.error());
    if (!manifest)
        committed.damage = manifest.error().message;
    else if (manifest->directory != directory || (claim && manifest->attempt != claim->attempt) ||
             (report != 0 && manifest->report != report))
        committed.damage = "the manifest is that of " + manifest->directory + ", attempt " +
                           std::to_string(manifest->attempt) + ", report " + std::to_string(manifest->report);
    else
        committed.manifest = std::move(*manifest);
    return committed;
}

// Returns the directory whose manifest this file is, relative to the run's directory; empty if it is no manifest.
std::string_view manifest_of(const StoreEntry& entry, const std::string& run_name) {
    std::string_view path = entry.path;
    path.remove_prefix(std::min(path.size(), run_name.size() + 1));
    if (path.size() < manifest_name.size() + 2 || !path.ends_with(manifest_name)) return {};
    path.remove_suffix(manifest_name.size());
    if (path.back() != '/') return {};
    path.remove_suffix(1);
    return path;
}

Status read_claim(Store& store, const StoreEntry& entry, std::uint32_t number, Listing& listing) {
    const auto text = store.get(entry.path);
    if (!text && text.error().code != ErrorCode::damaged) return text.error();
    auto claim = text ? decode_claim(*text, entry.path) : Result<Claim>(text.error());
    // The number of a damaged claim is still known from its file name. No decision depends on its other fields.
    listing.claims[number] = claim ? std::move(*claim) : Claim{};
    listing.claims[number].number = number;
    return Done{};
}

// Reads from.json of an attempt. A damaged file counts as an unknown origin: the live branch ends there, and the
// commits of this attempt still count.
Status read_origin(Store& store, const StoreEntry& entry, std::uint32_t number, Listing& listing) {
    const auto value = read_object(store, entry.path);
    if (!value) return value.error().code == ErrorCode::damaged ? Status(Done{}) : value.error();
    try {
        listing.origins[number] = {.from = value->at("from").get<std::string>(),
                                   .attempt = integer_in<std::uint32_t>(value->at("attempt")),
                                   .report = integer_in<std::uint64_t>(value->at("report"))};
    } catch (const json::exception&) { listing.origins.erase(number); }
    return Done{};
}

Status read_entry(Store& store, const std::string& run_name, const StoreEntry& entry, Listing& listing) {
    const Place place = place_of(entry, run_name);
    if (place.top == "attempts") {
        if (const auto number = claim_number(place.rest)) return read_claim(store, entry, *number, listing);
        if (place.rest.ends_with("/from.json"))
            if (const auto number = claim_number(std::string(place.rest.substr(0, place.rest.find('/'))) + ".json"))
                return read_origin(store, entry, *number, listing);
        return Done{};
    }
    const std::string directory(manifest_of(entry, run_name));
    const bool numbered = directory == place.top && attempt_of(directory);
    if (directory.empty() || !(numbered || claims_name(listing, run_name, directory))) return Done{};
    // If the claim cannot be read, the manifest alone decides to which attempt the directory belongs.
    const auto owner = owner_of(store, run_name, directory);
    if (!owner && owner.error().code != ErrorCode::damaged) return owner.error();
    auto committed = read_commit(store, entry, directory, owner ? std::optional(*owner) : std::nullopt);
    if (!committed) return committed.error();
    listing.checkpoints.push_back(std::move(*committed));
    return Done{};
}

void mark_live(Listing& listing) {
    std::uint32_t attempt = 0;  // number of the highest attempt that has begun
    for (const auto& [number, origin] : listing.origins) attempt = std::max(attempt, number);
    for (const auto& committed : listing.checkpoints)
        if (listing.claims.contains(committed.manifest.attempt))
            attempt = std::max(attempt, committed.manifest.attempt);
    mark_branch(listing, attempt, std::numeric_limits<std::uint64_t>::max());
}

}  // namespace

void mark_branch(Listing& listing, std::uint32_t attempt, std::uint64_t last_report) {
    for (auto& committed : listing.checkpoints) committed.live = false;
    while (attempt != 0) {
        for (auto& committed : listing.checkpoints)
            if (committed.manifest.attempt == attempt && committed.manifest.report <= last_report)
                committed.live = true;
        const auto origin = listing.origins.find(attempt);
        // `from` always names an attempt with a lower number. Any other value is damage, and the branch ends there.
        if (origin == listing.origins.end() || origin->second.from.empty() || origin->second.attempt >= attempt) return;
        attempt = origin->second.attempt;
        last_report = origin->second.report;
    }
}

bool holds_claims(const std::vector<StoreEntry>& files, const std::string& run_name, const std::string& directory) {
    const std::string path = name_path(run_name, directory) + "/";
    const auto first_claim =
        std::lower_bound(files.begin(), files.end(), path,
                         [](const StoreEntry& entry, const std::string& at) { return entry.path < at; });
    return first_claim != files.end() && first_claim->path.starts_with(path);
}

bool claims_name(const Listing& listing, const std::string& run_name, std::string_view directory) {
    if (!checkpoint_path_fault(directory).empty()) return false;
    const std::string path = name_path(run_name, std::string(directory));
    const auto place = std::lower_bound(listing.files.begin(), listing.files.end(), path,
                                        [](const StoreEntry& entry, const std::string& at) { return entry.path < at; });
    return place != listing.files.end() && place->path == path;
}

Result<Listing> read_listing(Store& store, const std::string& run_name) {
    Listing listing;
    auto files = store.list(run_name);
    if (!files) return files.error();
    listing.files = std::move(*files);
    if (const auto run = read_run(store, run_name); !run && run.error().code == ErrorCode::invalid) return run.error();
    for (const StoreEntry& entry : listing.files)
        if (auto read = read_entry(store, run_name, entry, listing); !read) return read.error();
    for (auto& [number, claim] : listing.claims)
        if (const auto origin = listing.origins.find(number); origin != listing.origins.end()) {
            claim.begun = true;
            claim.from = origin->second.from;
        }
    std::sort(listing.checkpoints.begin(), listing.checkpoints.end(), [](const auto& a, const auto& b) {
        return std::tie(a.manifest.attempt, a.manifest.report, a.manifest.directory) <
               std::tie(b.manifest.attempt, b.manifest.report, b.manifest.directory);
    });
    mark_live(listing);
    return listing;
}

Result<std::vector<CommittedCheckpoint>> list_checkpoints(Store& store, const std::string& run_name) {
    auto listing = read_listing(store, run_name);
    if (!listing) return listing.error();
    return std::move(listing->checkpoints);
}

}  // namespace rtrain::storage
