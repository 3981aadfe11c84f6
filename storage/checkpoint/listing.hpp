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
// true if the file names/<directory> exists, which claims the directory for a checkpoint
bool claims_name(const Listing& listing, const std::string& run_name, std::string_view directory);
// Returns true if a directory below `directory` is claimed for a checkpoint. Then `directory` is only its parent: it is
// not claimed itself, and not removed as a whole. `files` is a result of Store::list that includes the claims below
// names/<directory>.
bool holds_claims(const std::vector<StoreEntry>& files, const std::string& run_name, const std::string& directory);
Result<Listing> read_listing(Store& store, const std::string& run_name);
// Marks the checkpoints of the branch that ends with this report of this attempt as live.
void mark_branch(Listing& listing, std::uint32_t attempt, std::uint64_t last_report);
// Where checked files of a remote store are stored on this machine, and which local copies may replace them.
struct CheckedFiles {
    std::string keep_in{};  // directory for the checked files; empty: they are not kept
    NearerCopies nearer{};
};
Result<SoundCheckpoint> newest_sound_of(Store& store, const std::string& run_name, const Listing& listing,
                                        const CheckedFiles& files = {});
// Returns the files because of which a committed checkpoint cannot be used: missing, short and changed ones. Files in
// its directory that the manifest does not list do not matter.
Result<std::vector<std::string>> file_faults(Store& store, const std::string& run_name,
                                             const CommittedCheckpoint& committed, const Listing& listing,
                                             const CheckedFiles& files = {});

}  // namespace rtrain::storage
