// A listing of a run's directory: its claims and commits, and the commits on the live branch. Used inside of
// storage/checkpoint only.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::storage {

struct Origin {  // content of an attempt's from.json
    std::string from;
    std::uint32_t attempt = 0;
    std::uint64_t report = 0;
};

struct Listing {
    std::map<std::uint32_t, Claim> claims;
    std::map<std::uint32_t, Origin> origins;
    std::vector<CommittedCheckpoint> checkpoints;  // oldest first; those on the live branch are marked
    std::vector<StoreEntry> files;                 // all files below the run's directory
};

Result<Claim> decode_claim(const std::string& text, const std::string& path);
// true if names/<directory> exists
bool claims_name(const Listing& listing, const std::string& run_name, std::string_view directory);
// Returns true if deeper directories are claimed. Then `directory` only contains them: it is neither claimed nor
// removed as a whole. `files` is a result of Store::list that includes names/<directory>.
bool holds_claims(const std::vector<StoreEntry>& files, const std::string& run_name, const std::string& directory);
Result<Listing> read_listing(Store& store, const std::string& run_name);
// Marks the branch that ends with this attempt's report as live.
void mark_branch(Listing& listing, std::uint32_t attempt, std::uint64_t last_report);
// Says where checked files of a remote store are kept, and which nearer copies may replace them.
struct CheckedFiles {
    std::string keep_in{};  // empty: they are not kept
    NearerCopies nearer{};
};
Result<SoundCheckpoint> newest_sound_of(Store& store, const std::string& run_name, const Listing& listing,
                                        const CheckedFiles& files = {});
// Returns the files because of which a committed checkpoint cannot be used: missing, short and changed ones. Further
// files in its directory do not matter.
Result<std::vector<std::string>> file_faults(Store& store, const std::string& run_name,
                                             const CommittedCheckpoint& committed, const Listing& listing,
                                             const CheckedFiles& files = {});

}  // namespace rtrain::storage
