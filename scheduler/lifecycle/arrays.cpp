// Makes the runs of job arrays (`--array`) in slices. The submission is accepted as a whole with the first slice: the
// ids of all runs are taken, and the rest is a record (PendingArray). So a head that ends in between makes the others
// after its next start.
#include <algorithm>

#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/limits.hpp"

namespace rtrain::core {
namespace {

std::size_t runs_in_slice(const Run& model) {
    constexpr std::size_t bytes_of_bundle = 64;  // approximate bytes of memory of one bundle
    const std::size_t bytes = 1 + model.job_json.size() + model.spec.gang.bundles.size() * bytes_of_bundle;
    return std::clamp<std::size_t>(limits::array_slice_bytes / bytes, 1, limits::array_slice_runs);
}

// Returns true if the array's limit of parallel runs keeps the next run waiting.
bool held_back(PendingArray& array) {
    if (array.model.array_parallel == 0 || array.runs_made < array.model.array_parallel) return false;
    if (array.released == 0) return true;
    --array.released;
    return false;
}

Run next_run(const Cluster& cluster, PendingArray& array) {
    Run run = array.model;
    run.id = {array.model.id.value + array.runs_made};
    run.array_index = array.indices[array.runs_made];
    run.name = array_member(array.model.name, run.array_index);
    run.state = RunState::queued;
    run.array_waits = held_back(array);
    run.reason = blocked_by(cluster, run);
    ++array.runs_made;
    return run;
}

bool all_made(const PendingArray& array) { return array.runs_made >= array.indices.size(); }

// Returns the runs that were made.
std::vector<RunId> make_some(Change& change, PendingArray& array, std::size_t runs) {
    std::vector<RunId> fresh;
    for (; runs > 0 && !all_made(array); --runs) {
        Run run = next_run(change.seen(), array);
        fresh.push_back(run.id);
        change.add(std::move(run));
    }
    change.look_for_room();
    return fresh;
}

}  // namespace

void begin_array(Change& change, PendingArray array) {
    make_some(change, array, runs_in_slice(array.model));
    if (!all_made(array)) change.add(std::move(array));
}

// Each user's oldest array is continued, so that no user waits for another user's arrays.
void continue_arrays(Change& change) {
    std::map<std::string, RunId> oldest;
    for (const auto& [first, array] : change.seen().arrays) oldest.try_emplace(array.model.user, first);
    for (const auto& [user, first] : oldest) {
        PendingArray& array = change.edit_array(first);
        const Run model = array.model;
        const auto fresh = make_some(change, array, std::max<std::size_t>(1, runs_in_slice(model) / oldest.size()));
        if (all_made(array)) change.erase_array(first);
        if (!terminal(model.state)) continue;
        change.settle();
        for (const RunId run : fresh) end_run(change, run, model.state, model.reason);
    }
}

std::optional<std::string> promised_name(const Cluster& cluster, const RunSubmitted& event) {
    if (event.array.empty()) return is_promised(cluster, event.name) ? std::optional(event.name) : std::nullopt;
    for (const auto& [first, array] : cluster.arrays) {
        if (array.model.name != event.name) continue;
        const std::set<std::uint32_t> unmade(array.indices.begin() + array.runs_made, array.indices.end());
        for (const std::uint32_t index : event.array)
            if (unmade.contains(index)) return array_member(event.name, index);
    }
    return std::nullopt;
}

void release_place(Change& change, const Run& ended) {
    for (const auto& [first, array] : change.seen().arrays)
        if (array.model.name == ended.array && array.model.user == ended.user) {
            ++change.edit_array(first).released;
            return;
        }
}

}  // namespace rtrain::core
