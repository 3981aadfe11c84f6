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

#include "scheduler/model/result.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::storage {

struct Claim {  // attempts/NNNNNN.json: created exclusively; beginning of an attempt
    std::uint32_t number = 0;
    std::string cluster_id, run_id;
    std::string from;  // checkpoint directory; empty: from nothing (kept in attempts/NNNNNN/from.json)
    std::uint32_t world_size = 0;
    std::vector<std::string> nodes;
    std::string job_json;  // the spec in force
    std::int64_t wall_ms = 0;
    bool begun = false;                        // `from` is decided; workers may have started
    std::optional<std::string> code_sha256{};  // the code in force, may be empty; older claims do not say
    std::string array{};                       // the job array it belongs to; empty: none
    std::uint32_t array_index = 0;
    // Its checkpoints count for the `num_to_keep` of later runs of the name: written by a version that says so before
    // it deletes any, or under a `num_to_keep` of its own.
    bool counts = false;
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

// run.json. `create_run` is the claim of the name: false when it exists. Format 1 (which says no format) gives names of
// checkpoints with their attempt alone; 2 also exact ones, which binaries of before would pass over: `wall_ms`, which
// they need, has another name in it. In 3 a checkpoint may lie deeper than directly in the run's directory.
inline constexpr std::uint32_t run_format = 3;
struct RunHeader {
    std::string name, cluster_id, run_id, user, job_json, code_sha256;
    std::int64_t wall_ms = 0;
    std::uint32_t format = run_format;  // a greater one is refused: `invalid`
};
Result<bool> create_run(Store&, const RunHeader&);  // of the present format, whatever the header says
Result<RunHeader> read_run(Store&, const std::string& run_name);
Result<RunHeader> decode_run(const std::string& text, const std::string& path);  // `path`: for messages

// Copies of files that are nearer than a store which is not local. They are hints: each is hashed where it was put, as
// a download is, and a wrong one is downloaded.
struct NearerCopies {
    // Puts what may be the file's content at `target`, as a new file that nobody else holds open. False: there is none.
    std::function<bool(const ManifestFile& file, const std::string& target)> put{};
    // Hears that what was put was not what the manifest names.
    std::function<void(const ManifestFile& file)> refused{};
    // Called once a download finds no room: what is nearer goes, and the download begins anew.
    std::function<void()> make_room{};
};

struct EarlierCheckpoint {  // of an earlier run of the name
    Manifest manifest;
    bool counts = false;  // as in its attempt's claim
};
struct ClaimAnswer {
    std::uint32_t number = 0;
    std::string from;
    std::uint64_t reports_before = 0;  // on the live branch, up to `from`
    std::vector<std::string> damaged;  // newer ones that were passed over: "checkpoint_000007-a001: model.pt: ..."
    std::vector<EarlierCheckpoint> earlier;  // on the live branch, up to `from`; the oldest first
};
// Claims the next attempt number >= `claim.number`, then lists the run's checkpoints, chooses `from` by that listing,
// and writes the choice as a new file before it returns. Workers start after that. `from` is the newest sound
// checkpoint on the live branch. In the first attempt of a run id, `restore_from` (a committed directory, else
// not_found) replaces it. Later attempts ignore `restore_from` and continue from the checkpoints of the first one.
// `keep_in`: a local directory for the files of `from` where the store is not local: they were downloaded to be
// checked, and `fetch_checkpoint` into it does not download them again. `nearer`: what is put there is checked instead.
Result<ClaimAnswer> claim_attempt(Store&, const std::string& run_name, Claim claim, const std::string& restore_from,
                                  const std::string& keep_in = {}, const NearerCopies& nearer = {});
Result<std::vector<Claim>> read_claims(Store&, const std::string& run_name);  // by number
Result<Claim> read_claim(Store&, const std::string& run_name, std::uint32_t number);
// The newest claim that can be read: what is in force. None: the run has no claim yet.
std::optional<Claim> newest_claim(Store&, const std::string& run_name);

struct CommittedCheckpoint {
    Manifest manifest;
    bool live = false;   // on the live branch
    std::string damage;  // the manifest cannot be read: why; then only directory and attempt are known
};
// Every committed checkpoint, oldest first, with the live branch marked.
Result<std::vector<CommittedCheckpoint>> list_checkpoints(Store&, const std::string& run_name);
// Re-hashes files. Empty list: sound. Each entry names a file and what is wrong with it.
Result<std::vector<std::string>> verify_checkpoint(Store&, const std::string& run_name, const std::string& directory);
// The newest checkpoint on the live branch whose files are what was committed, and those passed over to reach it.
struct SoundCheckpoint {
    std::optional<Manifest> manifest;  // none: start from nothing
    std::vector<std::string> damaged;
};
Result<SoundCheckpoint> newest_sound(Store&, const std::string& run_name);
Status write_manifest(Store&, const std::string& run_name, const Manifest&);

// names/<directory>: the report whose checkpoint may lie in the directory of exactly that name. Created exclusively
// before its first byte, never changed and never removed: a name is used once in a run. A deeper directory is claimed
// by the library of the rank that made it; `claim_directory` claims names in the run's directory alone.
struct DirectoryClaim {
    std::uint32_t attempt = 0;
    std::uint64_t report = 0;  // 0: the directory's name says the attempt alone
    bool operator==(const DirectoryClaim&) const = default;
};
// Claims the directory for a report. True: it is that report's, also when it claims it again. False: it needs a name
// with its attempt, since this one is taken, not allowed, that of other files in the run, or the run is of format 1.
Result<bool> claim_directory(Store&, const std::string& run_name, const std::string& directory, DirectoryClaim);
// Returns whose checkpoint a directory is, by its name or its claim. not_found: nobody's; damaged: the claim cannot be
// read.
Result<DirectoryClaim> owner_of(Store&, const std::string& run_name, const std::string& directory);
// Fails with `invalid` unless a checkpoint of this report may lie there.
Status check_owner(Store&, const std::string& run_name, const std::string& directory, DirectoryClaim);
Status delete_checkpoint(Store&, const std::string& run_name, const std::string& directory);  // manifest first
// Copies a checkpoint to a local directory (or gives its place when the store is local), hashes checked.
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
    std::optional<std::uint32_t> first_failure;  // rank
    std::int64_t started_wall_ms = 0, ended_wall_ms = 0;
    std::map<std::uint32_t, RankEnd> ranks;  // of rank 0's node
    bool operator==(const AttemptEnd&) const = default;
};
std::string encode(const AttemptEnd&);
Result<AttemptEnd> decode_end(const std::string& text, const std::string& path);
Status write_end(Store&, const std::string& run_name, const AttemptEnd&);
Result<AttemptEnd> read_end(Store&, const std::string& run_name, std::uint32_t number);
struct RunOutcome {  // result.json
    std::string name, cluster_id, run_id, state, reason;
    std::uint32_t attempts = 0;  // highest number: a result older than the newest claim says nothing about it
    std::uint32_t failures = 0;
    std::string checkpoint, metrics_json;  // the latest
    std::vector<std::string> warnings;
    std::int64_t submitted_wall_ms = 0, ended_wall_ms = 0;
};
Status write_result(Store&, const std::string& run_name, const RunOutcome&);

Result<std::vector<std::string>> list_runs(Store&);  // names: directories with a run.json
struct Garbage {
    std::string path;  // relative to the store
    std::int64_t bytes = 0;
    std::string why;
};
struct GarbagePlan {
    bool terminal = false;  // result.json is there and no attempt began after it; only then may anything be removed
    std::vector<Garbage> items;
};
// Uncommitted directories, dead branches, files in the making. What an attempt's `from` names is never in it.
Result<GarbagePlan> plan_garbage(Store&, const std::string& run_name);
Status remove_garbage(Store&, const std::string& run_name, const Garbage&);  // a checkpoint: manifest first

// "checkpoint_000007-a002" is attempt 2; none: its name does not say it.
std::optional<std::uint32_t> attempt_of(std::string_view directory);
std::string checkpoint_directory_name(const std::string& wish, std::uint64_t counter, std::uint32_t attempt);

}  // namespace rtrain::storage
