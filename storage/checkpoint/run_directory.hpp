// A run's directory on storage: claims, checkpoints and their manifests, the live branch, retention,
// restore. Layout below <storage_path>/<run name>/:
//   run.json  code/<sha256>.tar.zst  attempts/000002.json  attempts/000002/{metrics-000001.jsonl,end.json}
//   checkpoint_000007-a002/{files..., .manifest.json}  result.json  logs/attempt-000002/rank-00000.{out,err}
//   best/{files..., .manifest.json}  names/best: a name that the program gave, and whose it is
//   epochs/3/{files..., .manifest.json}  names/epochs/3: a directory that the loop has made itself, and whose it is
// A directory is a checkpoint's if its name has the form of the first kind, or lies in names/. Others are the user's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

struct Claim {  // attempts/NNNNNN.json: created exclusively when an attempt begins
    std::uint32_t number = 0;
    std::string cluster_id, run_id;
    // directory of the checkpoint to start from; empty: start from the beginning (stored in attempts/NNNNNN/from.json)
    std::string from;
    std::uint32_t world_size = 0;
    std::vector<std::string> nodes;
    std::string job_json;  // the job spec of this attempt, as JSON
    std::int64_t wall_ms = 0;
    bool begun = false;  // true: `from` is decided, so workers may have started
    std::optional<std::string>
        code_sha256{};    // hash of the code archive, or empty; nullopt in claims of older versions
    std::string array{};  // the job array that the run belongs to; empty: none
    std::uint32_t array_index = 0;
    // True if the attempt's checkpoints count for the `num_to_keep` of later runs of the name. In claims of older
    // versions, which have no such flag, it is true if the attempt's job set a `num_to_keep`.
    bool counts = false;
};

struct ManifestFile {
    std::string path;  // path relative to the checkpoint's directory
    std::int64_t bytes = 0;
    std::string sha256;
    std::uint32_t rank = 0;
};
struct Manifest {  // .manifest.json: written last; its existence is the commit
    std::string directory;
    std::uint32_t attempt = 0;
    std::uint64_t report = 0;  // index of the report that contained the checkpoint
    std::uint32_t world_size = 0;
    std::int64_t wall_ms = 0;
    std::string metrics_json;
    std::vector<ManifestFile> files;
    std::int64_t bytes() const;
};
std::string encode(const Manifest&);
Result<Manifest> decode_manifest(const std::string&);

// run.json. `create_run` claims the name and returns false if it exists. In format 1 (which has no format field) names
// of checkpoints contain their attempt. Format 2 also has exact names. Earlier binaries would ignore these, so
// `wall_ms`, which they require, is renamed in format 2. In format 3 a checkpoint may lie deeper than directly in the
// run's directory.
inline constexpr std::uint32_t run_format = 3;
struct RunHeader {
    std::string name, cluster_id, run_id, user, job_json, code_sha256;
    std::int64_t wall_ms = 0;
    std::uint32_t format = run_format;  // version of the layout; a greater one is refused as `invalid`
};
Result<bool> create_run(Store&, const RunHeader&);  // writes the present format, whatever the header contains
Result<RunHeader> read_run(Store&, const std::string& run_name);
Result<RunHeader> decode_run(const std::string& text, const std::string& path);  // `path` is used in messages

// Access to copies of files that are nearer than a remote store. A copy may be wrong: each one is hashed after it was
// placed, as a download is, and a wrong copy is replaced by a download.
struct NearerCopies {
    // Places a possible copy of the file at `target`, as a new file that no other process has open. False: none exists.
    std::function<bool(const ManifestFile& file, const std::string& target)> put{};
    // Called if the placed content differs from the manifest.
    std::function<void(const ManifestFile& file)> refused{};
    // Called once if a download finds no space left: removes nearer copies, and the download starts again.
    std::function<void()> make_room{};
};

struct EarlierCheckpoint {  // a checkpoint that an earlier run of this name has committed
    Manifest manifest;
    bool counts = false;  // as Claim::counts of the checkpoint's attempt
};
struct ClaimAnswer {
    std::uint32_t number = 0;
    std::string from;
    std::uint64_t reports_before = 0;  // number of reports on the live branch up to `from`
    std::vector<std::string> damaged;  // newer checkpoints that were skipped: "checkpoint_000007-a001: model.pt: ..."
    std::vector<EarlierCheckpoint> earlier;  // checkpoints on the live branch up to `from`; oldest first
};
// Claims the first free attempt number that is not less than `claim.number`. Then lists the run's checkpoints, chooses
// `from` by that listing, and writes the choice as a new file. Workers start after that. `from` is the newest sound
// checkpoint on the live branch. In the first attempt of a run id, `restore_from` (a committed directory, else
// not_found) replaces it. Later attempts ignore `restore_from` and continue from the checkpoints of the first one.
// `keep_in`: where the files of `from` are stored after they were downloaded and checked, unless the store is local.
// `fetch_checkpoint` into that directory does not download them again. `nearer`: copies that replace downloads.
Result<ClaimAnswer> claim_attempt(Store&, const std::string& run_name, Claim claim, const std::string& restore_from,
                                  const std::string& keep_in = {}, const NearerCopies& nearer = {});
Result<std::vector<Claim>> read_claims(Store&, const std::string& run_name);  // sorted by number
Result<Claim> read_claim(Store&, const std::string& run_name, std::uint32_t number);
// Returns the newest claim that can be read, which is the one in force. Returns nullopt if the run has no claim yet.
std::optional<Claim> newest_claim(Store&, const std::string& run_name);

struct CommittedCheckpoint {
    Manifest manifest;
    bool live = false;   // true: on the live branch
    std::string damage;  // why the manifest cannot be read; if not empty, only its directory and attempt are set
};
// Returns all committed checkpoints, oldest first, with the live branch marked.
Result<std::vector<CommittedCheckpoint>> list_checkpoints(Store&, const std::string& run_name);
// Hashes the checkpoint's files again. Returns one entry per faulty file, with its name and fault.
Result<std::vector<std::string>> verify_checkpoint(Store&, const std::string& run_name, const std::string& directory);
// The newest checkpoint on the live branch whose files equal what was committed, and newer ones that are damaged.
struct SoundCheckpoint {
    std::optional<Manifest> manifest;  // the checkpoint; nullopt: there is none, so training starts from the beginning
    std::vector<std::string> damaged;
};
Result<SoundCheckpoint> newest_sound(Store&, const std::string& run_name);
Status write_manifest(Store&, const std::string& run_name, const Manifest&);

// names/<directory>: the report whose checkpoint may lie in the directory of exactly that name. It is created
// exclusively before the checkpoint's first byte, and never changed or removed. The library of the rank that makes a
// deeper directory claims it; `claim_directory` claims names directly in the run's directory only.
struct DirectoryClaim {
    std::uint32_t attempt = 0;
    std::uint64_t report = 0;  // index of the report; 0: the directory's name contains only the attempt
    bool operator==(const DirectoryClaim&) const = default;
};
// Claims the directory for a report. Returns true if it belongs to that report, also if the report claims it again.
// Returns false if the name is taken, not allowed, or used by other files of the run, or if the run has format 1.
Result<bool> claim_directory(Store&, const std::string& run_name, const std::string& directory, DirectoryClaim);
// Returns the report that owns a directory. Errors: not_found (no report does), damaged (the claim is unreadable).
Result<DirectoryClaim> owner_of(Store&, const std::string& run_name, const std::string& directory);
// Fails with `invalid` unless the directory may hold a checkpoint of this report.
Status check_owner(Store&, const std::string& run_name, const std::string& directory, DirectoryClaim);
// removes the manifest before the files
Status delete_checkpoint(Store&, const std::string& run_name, const std::string& directory);
// Copies a checkpoint to a local directory and checks the hashes. With a local store, returns its own path instead.
Result<std::string> fetch_checkpoint(Store&, const std::string& run_name, const std::string& directory,
                                     const std::string& to_local, const Progress& progress,
                                     const NearerCopies& nearer = {});
Result<std::string> hash_file(const std::string& local_path, const Progress& progress = {});  // sha256, lower-case hex
Result<std::string> hash_opened(const Descriptor& file, const std::string& name, const Progress& progress = {});

struct RankEnd {
    std::optional<std::int32_t> exit_code, signal;
    std::string detail;
    bool operator==(const RankEnd&) const = default;
};
struct AttemptEnd {  // attempts/NNNNNN/end.json
    std::uint32_t number = 0;
    std::string state, cause;
    std::optional<std::uint32_t> first_failure;  // the rank that failed first
    std::int64_t started_wall_ms = 0, ended_wall_ms = 0;
    std::map<std::uint32_t, RankEnd> ranks;  // ends of the ranks on rank 0's node; key: the rank
    bool operator==(const AttemptEnd&) const = default;
};
std::string encode(const AttemptEnd&);
Result<AttemptEnd> decode_end(const std::string& text, const std::string& path);
Status write_end(Store&, const std::string& run_name, const AttemptEnd&);
Result<AttemptEnd> read_end(Store&, const std::string& run_name, std::uint32_t number);
struct RunOutcome {  // result.json
    std::string name, cluster_id, run_id, state, reason;
    // The highest attempt number. A result that is older than the newest claim does not describe that attempt.
    std::uint32_t attempts = 0;
    std::uint32_t failures = 0;
    std::string checkpoint, metrics_json;  // directory and metrics of the latest checkpoint
    std::vector<std::string> warnings;
    std::int64_t submitted_wall_ms = 0, ended_wall_ms = 0;
};
Status write_result(Store&, const std::string& run_name, const RunOutcome&);

Result<std::vector<std::string>> list_runs(Store&);  // names of directories with a run.json
struct Garbage {
    std::string path;  // path relative to the store
    std::int64_t bytes = 0;
    std::string why;
};
struct GarbagePlan {
    // True if result.json exists and no attempt began after it was written. Otherwise nothing may be removed.
    bool terminal = false;
    std::vector<Garbage> items;
};
// Finds uncommitted directories, dead branches and unfinished files. Omits checkpoints that an attempt's `from` names.
Result<GarbagePlan> plan_garbage(Store&, const std::string& run_name);
// removes the manifest of a checkpoint before its files
Status remove_garbage(Store&, const std::string& run_name, const Garbage&);

// Returns 2 for "checkpoint_000007-a002"; nullopt if the name does not contain the attempt.
std::optional<std::uint32_t> attempt_of(std::string_view directory);
std::string checkpoint_directory_name(const std::string& wish, std::uint64_t counter, std::uint32_t attempt);

}  // namespace rtrain::storage
