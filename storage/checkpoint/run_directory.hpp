// A run's directory on storage (design 8): claims, checkpoints and their manifests, the live branch, retention, restore.
// Layout below <storage_path>/<run name>/:
//   run.json  code/<sha256>.tar.zst  attempts/000002.json  attempts/000002/{metrics-000001.jsonl,end.json}
//   checkpoint_000007-a002/{files..., .manifest.json}  result.json  logs/attempt-000002/rank-00000.{out,err}
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/result.hpp"
#include "storage/uri/store.hpp"

namespace rtrain::storage {

struct Claim {  // attempts/NNNNNN.json: created exclusively; beginning of an attempt
    std::uint32_t number = 0;
    std::string cluster_id, run_id;
    std::string from;  // checkpoint directory; empty: from nothing
    std::uint32_t world_size = 0;
    std::vector<std::string> nodes;
    std::string job_json;  // the spec in force
    std::int64_t wall_ms = 0;
};

struct ManifestFile {
    std::string path;  // relative to the checkpoint directory
    std::int64_t bytes = 0;
    std::string sha256;
    std::uint32_t rank = 0;
};
struct Manifest {  // .manifest.json: written last; it IS the commit
    std::string directory;
    std::uint32_t attempt = 0;
    std::uint64_t report = 0;  // index of the report that brought it
    std::uint32_t world_size = 0;
    std::int64_t wall_ms = 0;
    std::string metrics_json;
    std::vector<ManifestFile> files;
    std::int64_t bytes() const;
};
std::string encode(const Manifest&);
Result<Manifest> decode_manifest(const std::string&);

// run.json. `create_run` is the claim of the name: false when it exists.
struct RunHeader { std::string name, cluster_id, run_id, user, job_json, code_sha256; std::int64_t wall_ms = 0; };
Result<bool> create_run(Store&, const RunHeader&);
Result<RunHeader> read_run(Store&, const std::string& run_name);

// Claims the next number >= `at_least`, first; lists afterwards; `from` is the newest commit on the live branch as that
// listing shows it (or `restore_from`, an error when it is not committed). The claim file is then complete and immutable.
// To keep "claim first, list afterwards" with an immutable file, `from` is decided by the listing made after a number
// file `attempts/NNNNNN.json` was created, and written into `attempts/NNNNNN/from.json`... implementations may choose,
// as long as two claimers can never both believe they hold one number, and the walk along `from` is unambiguous.
struct ClaimAnswer { std::uint32_t number = 0; std::string from; };
Result<ClaimAnswer> claim_attempt(Store&, const std::string& run_name, Claim wanted, const std::string& restore_from);

struct CommittedCheckpoint {
    Manifest manifest;
    bool live = false;  // on the live branch
};
// Every committed checkpoint, oldest first, with the live branch marked.
Result<std::vector<CommittedCheckpoint>> list_checkpoints(Store&, const std::string& run_name);
// Re-hashes files. Empty list: sound. Each entry names a file and what is wrong with it.
Result<std::vector<std::string>> verify_checkpoint(Store&, const std::string& run_name, const std::string& directory);
Status write_manifest(Store&, const std::string& run_name, const Manifest&);
Status delete_checkpoint(Store&, const std::string& run_name, const std::string& directory);  // manifest first
// Copies a checkpoint to a local directory (or gives its place when the store is local), hashes checked.
Result<std::string> fetch_checkpoint(Store&, const std::string& run_name, const std::string& directory,
                                     const std::string& to_local, const Progress& progress);
Result<std::string> hash_file(const std::string& local_path);  // sha256, lower-case hex

std::string checkpoint_directory_name(const std::string& wanted, std::uint64_t counter, std::uint32_t attempt);

}  // namespace rtrain::storage
