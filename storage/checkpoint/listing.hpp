// One look at a run's directory: its claims, its commits, and which of them lie on the live branch. Inside of
// storage/checkpoint only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::storage {

struct Origin {  // an attempt's from.json
    std::string from;
    std::uint32_t attempt = 0;
    std::uint64_t report = 0;
};

struct Listing {
    std::map<std::uint32_t, Claim> claims;
    std::map<std::uint32_t, Origin> origins;
    std::vector<CommittedCheckpoint> checkpoints;  // oldest first, the live branch marked
    std::vector<StoreEntry> files;                 // everything below the run's directory
};

Result<Claim> decode_claim(const std::string& text, const std::string& path);
bool claims_name(const Listing& listing, const std::string& run_name, std::string_view directory);  // it lies in names/
// Deeper directories are claimed, so `directory` only holds them: it is neither claimed nor removed as a whole.
// `files`: what Store::list gave, of names/<directory> at least.
bool holds_claims(const std::vector<StoreEntry>& files, const std::string& run_name, const std::string& directory);
Result<Listing> read_listing(Store& store, const std::string& run_name);
// Marks the branch that ends with this attempt's report as the live one.
void mark_branch(Listing& listing, std::uint32_t attempt, std::uint64_t last_report);
// Where the files of a store that is not local are left once they are checked, and what may be put there instead.
struct CheckedFiles {
    std::string keep_in{};  // empty: nowhere
    NearerCopies nearer{};
};
Result<SoundCheckpoint> newest_sound_of(Store& store, const std::string& run_name, const Listing& listing,
                                        const CheckedFiles& files = {});
// What keeps a committed checkpoint from being used: missing, short and changed files. Files beside it do not.
Result<std::vector<std::string>> file_faults(Store& store, const std::string& run_name,
                                             const CommittedCheckpoint& committed, const Listing& listing,
                                             const CheckedFiles& files = {});

}  // namespace rtrain::storage
