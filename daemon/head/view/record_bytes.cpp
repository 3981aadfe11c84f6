// See record_bytes.hpp.
#include "daemon/head/view/record_bytes.hpp"

#include <functional>

#include "storage/job_spec/job.hpp"
#include "storage/job_spec/limits.hpp"

namespace rtrain::head {
namespace {

// the database has the present record, and its copy in the snapshot from which a replay begins
constexpr std::int64_t copies = 2;
constexpr std::int64_t attempt_alone = 512, worker_alone = 160, checkpoint_alone = 384, metric_alone = 64;

std::int64_t size(const std::string& text) { return static_cast<std::int64_t>(text.size()); }

KeptBytes in_record(std::int64_t bytes) { return {.memory = bytes, .database = copies * bytes, .files = 0}; }

}  // namespace

// Returns the bytes of a run's record. They do not depend on the number of workers, which changes during the run. Equal
// requests are stored once.
std::int64_t run_bytes(const Run& run) {
    const GangRequest& gang = run.spec.gang;
    const std::size_t names = gang.nodes_only.size() + gang.nodes_excluded.size();
    std::size_t bytes = spec::bytes_of_run + run.job_json.size() + names * spec::bytes_of_name, each = 0;
    for (std::size_t i = 0; i < gang.bundles.size(); ++i) {
        const Bundle& bundle = gang.bundles[i];
        if (i == 0 || bundle != gang.bundles[i - 1]) each = spec::demand_bytes(bundle.demand, bundle.selector);
        bytes += each;
    }
    return static_cast<std::int64_t>(bytes);
}

KeptBytes bytes_of(const Run& run) { return in_record(run_bytes(run)); }

KeptBytes bytes_of(const Attempt& attempt) {
    std::int64_t bytes = attempt_alone + static_cast<std::int64_t>(attempt.workers.size()) * worker_alone;
    if (!attempt.cause.none()) bytes += size(to_text(attempt.cause));
    for (const Worker& worker : attempt.workers)
        if (worker.exit) bytes += size(worker.exit->detail);
    return in_record(bytes);
}

KeptBytes bytes_of(const Checkpoint& checkpoint) {
    std::int64_t bytes = checkpoint_alone + size(checkpoint.directory);
    for (const auto& [name, value] : checkpoint.metrics) bytes += metric_alone + size(name);
    return in_record(bytes);
}

namespace {

// Returns a number that identifies a checkpoint among those of its run.
std::uint64_t part_of(const std::string& directory) { return std::hash<std::string>{}(directory); }

void count(UserBytes& bytes, const Run& run) {
    bytes.begin(run.id, run.user);
    bytes.put(run.id, Kept::runs, bytes_of(run));
}
void count(UserBytes& bytes, const Attempt& attempt) {
    bytes.put(attempt.id.run, Kept::attempts, bytes_of(attempt), attempt.id.number);
}
void count(UserBytes& bytes, const Checkpoint& checkpoint) {
    bytes.put(checkpoint.run, Kept::checkpoints, bytes_of(checkpoint), part_of(checkpoint.directory));
}

}  // namespace

namespace {

std::string array_name(RunId first) { return "array/" + std::to_string(first.value); }

// Counts runs of an array that are still to be made as if they existed, because an array is accepted as a whole.
void count(UserBytes& bytes, const PendingArray& array) {
    const auto unmade = static_cast<std::int64_t>(array.indices.size() - array.runs_made);
    KeptBytes all = bytes_of(array.model);
    all.memory *= unmade;
    all.database *= unmade;
    bytes.put(array.model.user, Kept::runs, array_name(array.model.id), all);
}

}  // namespace

// Updates the counts of a user after a record has changed. After an attempt's end, the ends of its workers count for
// its record.
void follow(UserBytes& bytes, const Record& record) {
    if (const Run* run = std::get_if<Run>(&record))
        count(bytes, *run);
    else if (const auto* attempt = std::get_if<Attempt>(&record))
        count(bytes, *attempt);
    else if (const auto* renumbered = std::get_if<EraseAttempt>(&record))
        bytes.put(renumbered->id.run, Kept::attempts, {}, renumbered->id.number);
    else if (const auto* checkpoint = std::get_if<Checkpoint>(&record))
        count(bytes, *checkpoint);
    else if (const auto* deleted = std::get_if<EraseCheckpoint>(&record))
        bytes.put(deleted->key.run, Kept::checkpoints, {}, part_of(deleted->key.directory));
    else if (const auto* array = std::get_if<PendingArray>(&record))
        count(bytes, *array);
    else if (const auto* finished = std::get_if<EraseArray>(&record))
        bytes.forget(Kept::runs, array_name(finished->first));
    else if (const auto* gone = std::get_if<EraseRun>(&record))
        bytes.forget(gone->id);
}

void follow(UserBytes& bytes, const Cluster& cluster) {
    for (const auto& [id, run] : cluster.runs) count(bytes, run);
    for (const auto& [id, attempt] : cluster.attempts) count(bytes, attempt);
    for (const auto& [key, checkpoint] : cluster.checkpoints) count(bytes, checkpoint);
    for (const auto& [first, array] : cluster.arrays) count(bytes, array);
}

}  // namespace rtrain::head
