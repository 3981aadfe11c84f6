// Begins runs and attempts. An attempt has two files. `attempts/NNNNNN.json` is created exclusively and contains the
// attempt's number. `attempts/NNNNNN/from.json` contains the checkpoint that the attempt starts from; it is created
// after the listing that decided it. Neither file ever changes. An attempt without from.json has started no worker and
// is ignored.

#include <algorithm>
#include <set>

#include "storage/checkpoint/layout.hpp"
#include "storage/checkpoint/listing.hpp"

namespace rtrain::storage {
namespace {

using nlohmann::json;
constexpr std::uint32_t numbers_tried = 10'000;

json claim_fields(const Claim& claim) {
    json value{{"schema_version", 1},
               {"number", claim.number},
               {"cluster_id", claim.cluster_id},
               {"run_id", claim.run_id},
               {"world_size", claim.world_size},
               {"nodes", claim.nodes},
               {"job", embedded(claim.job_json)},
               {"wall_ms", claim.wall_ms}};
    value["counts"] = true;
    if (claim.code_sha256) value["code_sha256"] = *claim.code_sha256;
    if (!claim.array.empty()) value["array"] = {{"name", claim.array}, {"index", claim.array_index}};
    return value;
}

// Claims the first free number that is not less than the number in `claim`.
Result<std::uint32_t> take_number(Store& store, const std::string& run_name, Claim& claim) {
    const std::uint32_t first = std::max<std::uint32_t>(claim.number, 1);
    for (claim.number = first; claim.number < first + numbers_tried; ++claim.number) {
        const auto created = store.create(claim_path(run_name, claim.number), file_text(claim_fields(claim)));
        if (!created) return created.error();
        if (*created) return claim.number;
    }
    return Error{ErrorCode::conflict,
                 "run " + run_name + ": attempt numbers " + std::to_string(first) + " to " +
                     std::to_string(claim.number - 1) + " are all taken on storage",
                 "is another cluster running it? See attempts/ in its directory"};
}

// Returns true if this is the first attempt of its run id: no attempt of that id with a lower number has begun.
bool first_of_its_run(const Listing& listing, const Claim& claim) {
    return std::none_of(listing.claims.begin(), listing.claims.end(), [&](const auto& entry) {
        const Claim& other = entry.second;
        return other.begun && other.number != claim.number && other.run_id == claim.run_id &&
               other.cluster_id == claim.cluster_id;
    });
}

Result<SoundCheckpoint> wanted_checkpoint(Store& store, const std::string& run_name, const Listing& listing,
                                          const std::string& directory, const CheckedFiles& files) {
    for (const CommittedCheckpoint& committed : listing.checkpoints) {
        if (committed.manifest.directory != directory) continue;
        const auto faults = file_faults(store, run_name, committed, listing, files);
        if (!faults) return faults.error();
        if (faults->empty()) return SoundCheckpoint{.manifest = committed.manifest};
        return Error{ErrorCode::damaged, "checkpoint " + directory + " is damaged: " + faults->front(),
                     "rtrain restore without @" + directory + " takes the newest sound one"};
    }
    return Error{ErrorCode::not_found, "run " + run_name + " has no committed checkpoint " + directory,
                 "rtrain checkpoints list shows those there are"};
}

// Returns the number of reports on the live branch up to this checkpoint: those of its own attempt, and those of
// earlier attempts.
Result<std::uint64_t> reports_up_to(Store& store, const std::string& run_name,
                                    const std::optional<Manifest>& manifest) {
    if (!manifest) return std::uint64_t{0};
    const auto begin = read_object(store, from_path(run_name, manifest->attempt));
    if (!begin && begin.error().code != ErrorCode::not_found) return begin.error();
    // runs of older versions have no such field
    const json before = begin ? begin->value("reports_before", json(0)) : json(0);
    return (before.is_number_unsigned() ? before.get<std::uint64_t>() : 0) + manifest->report;
}

// Returns the checkpoints that earlier runs of this name have committed on the branch that this attempt continues.
std::vector<EarlierCheckpoint> earlier_ones(Listing& listing, const Claim& claim, const std::optional<Manifest>& from) {
    std::vector<EarlierCheckpoint> earlier;
    mark_branch(listing, from ? from->attempt : 0, from ? from->report : 0);
    for (CommittedCheckpoint& committed : listing.checkpoints) {
        const auto by = listing.claims.find(committed.manifest.attempt);
        if (!committed.live || !committed.damage.empty() || by == listing.claims.end()) continue;
        if (by->second.run_id == claim.run_id && by->second.cluster_id == claim.cluster_id) continue;
        earlier.push_back({.manifest = std::move(committed.manifest), .counts = by->second.counts});
    }
    return earlier;
}

json from_fields(const std::optional<Manifest>& manifest, std::uint64_t reports_before) {
    if (!manifest) return {{"schema_version", 1}, {"from", ""}, {"attempt", 0}, {"report", 0}, {"reports_before", 0}};
    return {{"schema_version", 1},
            {"from", manifest->directory},
            {"attempt", manifest->attempt},
            {"report", manifest->report},
            {"reports_before", reports_before}};
}

Result<RunHeader> header_of(const json& value, const std::string& path) {
    try {
        const auto format = integer_in<std::uint32_t>(value.value("format", json(1)));
        if (format > run_format)
            return Error{ErrorCode::invalid,
                         path + " has format " + std::to_string(format) + "; this rtrain reads formats 1 to " +
                             std::to_string(run_format),
                         "use the rtrain that made the run, or a newer one"};
        return RunHeader{.name = value.at("name").get<std::string>(),
                         .cluster_id = value.at("cluster_id").get<std::string>(),
                         .run_id = value.at("run_id").get<std::string>(),
                         .user = value.at("user").get<std::string>(),
                         .job_json = extracted(value.at("job")),
                         .code_sha256 = value.at("code_sha256").get<std::string>(),
                         .wall_ms = integer_in<std::int64_t>(value.at(format < 2 ? "wall_ms" : "created_wall_ms")),
                         .format = format};
    } catch (const json::exception& wrong) { return Error{ErrorCode::damaged, path + ": " + wrong.what(), ""}; }
}

}  // namespace

Result<bool> create_run(Store& store, const RunHeader& header) {
    const json value = {{"schema_version", 1},
                        {"format", run_format},
                        {"name", header.name},
                        {"cluster_id", header.cluster_id},
                        {"run_id", header.run_id},
                        {"user", header.user},
                        {"job", embedded(header.job_json)},
                        {"code_sha256", header.code_sha256},
                        {"created_wall_ms", header.wall_ms}};
    return store.create(run_path(header.name), file_text(value));
}

Result<RunHeader> read_run(Store& store, const std::string& run_name) {
    auto value = read_object(store, run_path(run_name));
    if (!value) {
        Error error = value.error();
        if (error.code == ErrorCode::not_found) error.next = "a run's directory is the one that holds run.json";
        return error;
    }
    return header_of(*value, run_path(run_name));
}

Result<RunHeader> decode_run(const std::string& text, const std::string& path) {
    const auto value = parse_object(text, path);
    return value ? header_of(*value, path) : value.error();
}

Result<Claim> decode_claim(const std::string& text, const std::string& path) {
    auto value = parse_object(text, path);
    if (!value) return value.error();
    try {
        std::optional<std::string> code;
        if (value->contains("code_sha256")) code = value->at("code_sha256").get<std::string>();
        const json array = value->value("array", json::object());
        const json checkpoint = value->at("job").is_object() ? value->at("job").value("checkpoint", json()) : json();
        return Claim{.number = integer_in<std::uint32_t>(value->at("number")),
                     .cluster_id = value->at("cluster_id").get<std::string>(),
                     .run_id = value->at("run_id").get<std::string>(),
                     .world_size = integer_in<std::uint32_t>(value->at("world_size")),
                     .nodes = value->at("nodes").get<std::vector<std::string>>(),
                     .job_json = extracted(value->at("job")),
                     .wall_ms = integer_in<std::int64_t>(value->at("wall_ms")),
                     .code_sha256 = std::move(code),
                     .array = array.value("name", std::string()),
                     .array_index = integer_in<std::uint32_t>(array.value("index", json(0))),
                     .counts = value->value("counts", json(false)) == json(true) ||
                               (checkpoint.is_object() && checkpoint.value("num_to_keep", json()).is_number())};
    } catch (const json::exception& wrong) { return Error{ErrorCode::damaged, path + ": " + wrong.what(), ""}; }
}

Result<ClaimAnswer> claim_attempt(Store& store, const std::string& run_name, Claim claim,
                                  const std::string& restore_from, const std::string& keep_in,
                                  const NearerCopies& nearer) {
    const auto number = take_number(store, run_name, claim);
    if (!number) return number.error();
    // The listing is read after the claim was made, so that no older attempt can commit unseen on the live branch.
    auto listing = read_listing(store, run_name);
    if (!listing) return listing.error();
    const CheckedFiles files{.keep_in = keep_in, .nearer = nearer};
    const bool restores = !restore_from.empty() && first_of_its_run(*listing, claim);
    const auto start = restores ? wanted_checkpoint(store, run_name, *listing, restore_from, files)
                                : newest_sound_of(store, run_name, *listing, files);
    if (!start) return start.error();
    const auto before = reports_up_to(store, run_name, start->manifest);
    if (!before) return before.error();
    const auto decided = store.create(from_path(run_name, *number), file_text(from_fields(start->manifest, *before)));
    if (!decided) return decided.error();
    if (!*decided)
        return Error{
            ErrorCode::conflict,
            from_path(run_name, *number) + " exists although attempt " + std::to_string(*number) + " was just claimed",
            "another program writes into this run's directory"};
    return ClaimAnswer{.number = *number,
                       .from = start->manifest ? start->manifest->directory : "",
                       .reports_before = *before,
                       .damaged = start->damaged,
                       .earlier = earlier_ones(*listing, claim, start->manifest)};
}

Result<std::vector<Claim>> read_claims(Store& store, const std::string& run_name) {
    const auto listing = read_listing(store, run_name);
    if (!listing) return listing.error();
    std::vector<Claim> claims;
    for (const auto& [number, claim] : listing->claims) claims.push_back(claim);
    return claims;
}

Result<Claim> read_claim(Store& store, const std::string& run_name, std::uint32_t number) {
    const auto text = store.get(claim_path(run_name, number));
    if (!text) return text.error();
    return decode_claim(*text, claim_path(run_name, number));
}

std::optional<Claim> newest_claim(Store& store, const std::string& run_name) {
    const auto claims = read_claims(store, run_name);
    if (!claims) return std::nullopt;
    const auto entry =
        std::find_if(claims->rbegin(), claims->rend(), [](const Claim& claim) { return !claim.job_json.empty(); });
    return entry == claims->rend() ? std::nullopt : std::optional(*entry);
}

}  // namespace rtrain::storage
