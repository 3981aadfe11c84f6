// The agent's operations on a run's directory during and after the run: stage, upload, commit, journal, delete. They
// block; call them on the pool.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "daemon/agent/disk/journal.hpp"
#include "daemon/agent/preparation/preparation.hpp"

namespace rtrain::agent {

// Returns the kind of a storage error as one word, for a notice and for rtrain_checkpoint_failures_total{reason}.
std::string storage_reason(ErrorCode code);

// Returns where to stage a checkpoint of `expected` bytes, by the free bytes of the storage path (nullopt: not a
// directory on this node) and of the node's disk. At most two checkpoints are on a node, one being uploaded and one
// staged. The spool takes a fifth of the free bytes, since other programs use the disk.
enum class StagePlace { storage, spool, nowhere };
StagePlace place_to_stage(std::int64_t expected, std::optional<std::int64_t> storage_free, std::int64_t node_free);
// Returns a new staging directory. It is on the storage path, where its files need no copy. If that has hardly room for
// `expected` bytes, it is on the node's own disk. Then a full storage fails the upload, not the user's program.
Result<std::string> make_stage(const AttemptContext& context, std::uint32_t rank, const std::string& unique,
                               std::int64_t expected);
StagedListed list_staged(const AttemptContext& context, const ListStaged& order);
// Hashes each file and moves or sends it below `directory`. Files that an interrupted try has moved are found there.
// Calls `moved` at most once a second, from any thread, with the bytes that the storage has taken; the number never
// decreases, and is 0 while files are hashed.
using UploadProgress = std::function<void(std::int64_t bytes)>;
Uploaded upload(const AttemptContext& context, const Upload& order, const UploadProgress& moved = {});
ManifestWritten commit(const AttemptContext& context, const WriteManifest& order);
void drop_staged(const AttemptContext& context, const StagedPaths& staged);
void drop_staging(const AttemptContext& context);  // removes all staging of an attempt that has ended

std::string journal_line(const JournalMetrics& metrics);
// Appends the journal to that of the run's directory.
Status deliver(Journal& journal, const AttemptContext& context, std::uint32_t number);
Status copy_logs(const AttemptContext& context, const NodeFacts& facts, std::uint32_t number);

CheckpointGone remove_checkpoint(const NodeFacts& facts, const protocol::Delete& order);
protocol::Cleared clear_run(const NodeFacts& facts, const protocol::Clear& order);
Status write_result_file(const NodeFacts& facts, const protocol::Result_& order);

}  // namespace rtrain::agent
