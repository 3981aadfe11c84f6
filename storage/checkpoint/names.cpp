// Handles names that programs give to their checkpoints. The file <run>/names/<name> records which report owns the
// directory of that name. A name is never given to a second report, so an attempt that was fenced off never writes to
// the directory of a later one. A directory that the training loop has made may lie deeper: names/epochs/3 claims
// epochs/3. Because a file and a directory cannot share a name, no checkpoint lies inside of another one.

#include "base/checkpoint_name.hpp"
#include "storage/checkpoint/layout.hpp"
#include "storage/checkpoint/listing.hpp"

namespace rtrain::storage {
namespace {

using nlohmann::json;

std::string claim_text(const DirectoryClaim& claim) {
    return file_text({{"schema_version", 1}, {"attempt", claim.attempt}, {"report", claim.report}});
}

// Returns true if `claim` owns the name, and false if another report does. Returns not_found if no report does.
Result<bool> has_name(Store& store, const std::string& run_name, const std::string& directory, DirectoryClaim claim) {
    const auto there = read_directory_claim(store, run_name, directory);
    if (there) return *there == claim;
    return there.error().code == ErrorCode::damaged ? Result<bool>(false) : there.error();
}

}  // namespace

Result<DirectoryClaim> read_directory_claim(Store& store, const std::string& run_name, const std::string& directory) {
    const std::string path = name_path(run_name, directory);
    const auto value = read_object(store, path);
    if (!value) return value.error();
    try {
        return DirectoryClaim{.attempt = integer_in<std::uint32_t>(value->at("attempt")),
                              .report = integer_in<std::uint64_t>(value->at("report"))};
    } catch (const json::exception& wrong) { return Error{ErrorCode::damaged, path + ": " + wrong.what(), ""}; }
}

Result<bool> claim_directory(Store& store, const std::string& run_name, const std::string& directory,
                             DirectoryClaim claim) {
    if (!checkpoint_name_fault(directory).empty()) return false;
    const auto claims = store.list(name_path(run_name, directory));
    if (!claims) return claims.error();
    if (holds_claims(*claims, run_name, directory)) return false;
    auto ours = has_name(store, run_name, directory, claim);
    if (ours || ours.error().code != ErrorCode::not_found) return ours;
    const auto run = read_run(store, run_name);
    if (!run) return run.error();
    if (run->format < 2) return false;
    const auto files = store.list(run_name + "/" + directory);
    if (!files) return files.error();
    if (!files->empty()) return false;
    const auto created = store.create(name_path(run_name, directory), claim_text(claim));
    if (!created || *created) return created;
    return has_name(store, run_name, directory, claim);
}

Result<DirectoryClaim> owner_of(Store& store, const std::string& run_name, const std::string& directory) {
    const auto attempt = attempt_of(directory);
    if (attempt && safe_relative(directory) && directory.find('/') == std::string::npos)
        return DirectoryClaim{.attempt = *attempt};
    if (!checkpoint_path_fault(directory).empty())
        return Error{ErrorCode::not_found, "\"" + directory + "\" is not the name of a checkpoint", ""};
    return read_directory_claim(store, run_name, directory);
}

Status check_owner(Store& store, const std::string& run_name, const std::string& directory, DirectoryClaim claim) {
    const auto owner = owner_of(store, run_name, directory);
    if (!owner && owner.error().code != ErrorCode::not_found) return owner.error();
    if (owner && owner->attempt == claim.attempt && (owner->report == 0 || owner->report == claim.report))
        return Done{};
    return Error{ErrorCode::invalid,
                 "\"" + directory + "\" is not the directory of report " + std::to_string(claim.report) +
                     " of attempt " + std::to_string(claim.attempt),
                 "do all nodes of the run have the same version of rtrain?"};
}

}  // namespace rtrain::storage
