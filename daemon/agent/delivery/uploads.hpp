// What the agent does to a run's directory while and after it runs: stage, upload, commit, journal, delete. Blocking:
// runs on the pool.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "daemon/agent/disk/journal.hpp"
#include "daemon/agent/preparation/preparation.hpp"

namespace rtrain::agent {

// The kind of a storage's error, in one word of a notice and of rtrain_checkpoint_failures_total{reason}.
std::string storage_reason(ErrorCode code);

// Room for a checkpoint of `expected` bytes; free bytes of the storage path (none: it is not a directory here) and of
// the node's own disk. Two checkpoints are on a node at most: one on its way, one staged; the spool takes a fifth of
// what is free, since the disk is not ours alone.
enum class StagePlace { storage, spool, nowhere };
StagePlace place_to_stage(std::int64_t expected, std::optional<std::int64_t> storage_free, std::int64_t node_free);
// Returns a new staging directory. It is on the storage path, where its files need no copy; on the node's own disk when
// there is hardly room for `expected` bytes there, so that it is the upload that fails on a full disk, and not the
// program that writes its files.
Result<std::string> make_stage(const AttemptContext& context, std::uint32_t rank, const std::string& unique,
                               std::int64_t expected);
StagedListed list_staged(const AttemptContext& context, const ListStaged& order);
// Hashes each file and moves or sends it below `directory`. A file that a broken try has moved already is found there.
// `moved` hears, each second at most and from any thread, how far it has come: never less in a try that comes further.
using UploadProgress = std::function<void(std::int64_t bytes)>;
Uploaded upload(const AttemptContext& context, const Upload& order, const UploadProgress& moved = {});
ManifestWritten commit(const AttemptContext& context, const WriteManifest& order);
void drop_staged(const AttemptContext& context, const StagedPaths& staged);
void drop_staging(const AttemptContext& context);  // all of an attempt that has ended

std::string journal_line(const JournalMetrics& metrics);
Status deliver(Journal& journal, const AttemptContext& context, std::uint32_t number);  // into the run's directory
Status copy_logs(const AttemptContext& context, const NodeFacts& facts, std::uint32_t number);

CheckpointGone remove_checkpoint(const NodeFacts& facts, const protocol::Delete& order);
protocol::Cleared clear_run(const NodeFacts& facts, const protocol::Clear& order);
Status write_result_file(const NodeFacts& facts, const protocol::Result_& order);

}  // namespace rtrain::agent
