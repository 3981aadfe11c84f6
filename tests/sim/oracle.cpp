// See oracle.hpp. Each Violation names the invariant of docs/architecture.md that fails.
#include "tests/sim/oracle.hpp"

#include <algorithm>

#include "scheduler/model/derived.hpp"

namespace rtrain::sim {
namespace {

void require(bool holds, const std::string& what) {
    if (!holds) throw Violation{what};
}

std::string text(AttemptId id) {
    return "run " + std::to_string(id.run.value) + " attempt " + std::to_string(id.number);
}

std::optional<AttemptId> attempt_of(const Event& event) {
    return std::visit(
        [](const auto& one) -> std::optional<AttemptId> {
            if constexpr (requires { one.attempt; })
                return one.attempt;
            else
                return std::nullopt;
        },
        event);
}

std::optional<AttemptId> started_by(const Effect& effect) {
    if (const auto* one = std::get_if<PrepareNode>(&effect)) return one->attempt;
    if (const auto* one = std::get_if<LaunchWorkers>(&effect)) return one->attempt;
    return std::nullopt;
}

}  // namespace

// Returns true if every predecessor has succeeded, or has ended if only its end is waited for.
bool Oracle::condition_holds(const After& after, const Cluster& cluster) const {
    const auto removed = removed_.find(after.run);
    const RunState state = removed == removed_.end() ? cluster.runs.at(after.run).state : removed->second;
    return state == RunState::succeeded || (after.what == AfterWhat::ended && terminal(state));
}

// Checks that a run starts only after the runs that it waits for, and that an array keeps to its limit.
void Oracle::check_blocked(const Run& run, const Cluster& cluster) const {
    for (const After& after : run.spec.after)
        require(condition_holds(after, cluster), run.name + " starts before its condition holds");
    if (run.array_parallel == 0) return;
    const auto started = std::count_if(cluster.runs.begin(), cluster.runs.end(), [&](const auto& entry) {
        const Run& other = entry.second;
        return other.array == run.array && other.user == run.user && other.attempts > 0 && !terminal(other.state);
    });
    require(started <= static_cast<std::int64_t>(run.array_parallel),
            "of array " + run.array + " " + std::to_string(started) + " run at a time");
}

// Invariant 11: a run that is over, or was stopped by a user, starts nothing.
void Oracle::check_starts(const Decision& decision, const Cluster& after) const {
    for (const Effect& effect : decision.act) {
        const auto starts = started_by(effect);
        if (!starts) continue;
        const Run& run = after.runs.at(starts->run);
        require(!terminal(run.state) && run.stop_by.empty(),
                run.name + " is over or was stopped, and starts " + text(*starts));
        check_blocked(run, after);
    }
}

// Invariant 6: late news are recognised by their attempt. (Another run's retry may become due with the same event.)
void Oracle::check_late(const Event& event, const Decision& decision) const {
    const auto id = attempt_of(event);
    if (!id || !over_.contains(*id)) return;
    for (const Record& record : decision.save) {
        const auto* attempt = std::get_if<Attempt>(&record);
        const auto* node = std::get_if<AttemptNode>(&record);
        const auto* worker = std::get_if<AttemptWorker>(&record);
        const bool changed = (attempt != nullptr && attempt->id == *id) || (node != nullptr && node->attempt == *id) ||
                             (worker != nullptr && worker->attempt == *id);
        require(!changed, "an event of " + text(*id) + ", which is over, changed it");
    }
}

// Checks that a checkpoint request is fulfilled only by a checkpoint of a report after the request.
void Oracle::check_answer(const Event& event, const Decision& decision, const Cluster& after) const {
    const auto* commit = std::get_if<CheckpointCommitted>(&event);
    if (commit == nullptr) return;
    for (const Effect& effect : decision.act) {
        const auto* stop = std::get_if<StopAttempt>(&effect);
        const auto attempt = stop == nullptr ? after.attempts.end() : after.attempts.find(stop->attempt);
        if (attempt == after.attempts.end() || attempt->first != commit->attempt || !attempt->second.request) continue;
        const auto asked = requested_.find(
            {{attempt->first.run.value, attempt->second.incarnation}, attempt->second.request->asked.ms});
        const auto report = report_of_.find({after.runs.at(attempt->first.run).name, commit->directory});
        require(asked != requested_.end() && report != report_of_.end() && report->second > asked->second,
                text(attempt->first) + " leaves with " + commit->directory + ", which is older than the ask for one");
    }
}

// Checks that every millisecond of a run has one cause, for whatever its ranks have waited.
void Oracle::check_time(const Run& run, const Cluster& after) const {
    const auto waits_of = [](const AttemptId& id) {
        const std::int64_t some = static_cast<std::int64_t>(id.run.value % 7 + id.number) * 700;
        return RankWaits{.checkpoint = {some}, .data = {2 * some}, .straggler = {some / 2}};
    };
    const TimeByCause time = time_by_cause(after, run, after.meta.now, waits_of);
    const Time end = terminal(run.state) ? run.ended : after.meta.now;
    require(time.wall() == end - run.submitted, run.name + ": the causes do not sum to its wall time");
    for (const TimeCause cause : time_causes)
        require(time[cause].ms >= 0, run.name + " has less than no time for " + to_text(cause));
}

void Oracle::decided(const Event& event, const Decision& decision, const Cluster& after) {
    check_late(event, decision);
    check_answer(event, decision, after);
    check_starts(decision, after);
    const std::string taken = seats_.decided(decision, after);
    require(taken.empty(), taken);
    const std::string beyond = budgets_.decided(decision, after);
    require(beyond.empty(), beyond);
    const std::string kept_waiting = yielding_.decided(decision, after);
    require(kept_waiting.empty(), kept_waiting);
    const auto broken = invariants(after);
    require(broken.empty(), broken.empty() ? "" : broken.front());
    require(!decision.refused || decision.save.empty(), "a refusal saved something");
    for (const Record& record : decision.save) {
        if (const auto* attempt = std::get_if<Attempt>(&record); attempt != nullptr && terminal(attempt->state))
            over_.insert(attempt->id);
        if (const auto* gone = std::get_if<EraseRun>(&record)) {
            const auto end = ended_as_.find(gone->id);
            require(end != ended_as_.end(), "run " + std::to_string(gone->id.value) + " was removed before its end");
            removed_.insert(*end);
        }
        const auto* run = std::get_if<Run>(&record);
        if (run == nullptr) continue;
        require(!removed_.contains(run->id), run->name + " was removed, and is there again");
        check_time(*run, after);
        const auto [first, fresh] = submitted_.emplace(std::pair(run->submit_key, run->array_index), run->id);
        require(fresh || first->second == run->id, "one submission made two runs");
        std::uint32_t& number = numbers_[run->id];
        require(run->attempts >= number, "the attempt numbers of run " + std::to_string(run->id.value) + " went back");
        number = run->attempts;
        const auto ended = ended_as_.find(run->id);
        require(ended == ended_as_.end() || ended->second == run->state,
                "run " + std::to_string(run->id.value) + " left its terminal state");
        if (terminal(run->state)) ended_as_[run->id] = run->state;
        note_end(*run);
    }
    if (const auto* lost = std::get_if<NodeLost>(&event))
        for (const auto& [id, attempt] : after.attempts)
            if (std::any_of(attempt.workers.begin(), attempt.workers.end(),
                            [&](const Worker& w) { return w.seat.node == lost->node; }))
                fault(id.run.value);
}

// `checkpoint.keep_latest: until_success`.
void Oracle::note_end(const Run& run) {
    if (run.state == RunState::succeeded && run.spec.retention.latest_until_success) latest_may_go_.insert(run.name);
}

// Forgets what the head forgets: decisions that a head made and did not commit before it died.
void Oracle::forgotten(const Cluster& disk) {
    for (const auto& [id, run] : disk.runs)
        if (run.state != RunState::succeeded) latest_may_go_.erase(run.name);
    seats_.forgotten(disk);
    budgets_.forgotten(disk);
    yielding_.forgotten(disk);
    over_.clear();
    ended_as_.clear();
    numbers_.clear();
    submitted_.clear();
    std::erase_if(removed_, [&](const auto& one) { return disk.runs.contains(one.first); });
    for (const auto& [id, attempt] : disk.attempts)
        if (terminal(attempt.state)) over_.insert(id);
    for (const auto& [id, run] : disk.runs) {
        numbers_[id] = run.attempts;
        submitted_[{run.submit_key, run.array_index}] = id;
        if (terminal(run.state)) ended_as_[id] = run.state;
    }
}

// Invariants 7 and 12: the durable state equals the decided one.
void Oracle::durable(const Cluster& disk, const Cluster& memory) const {
    require(disk == memory, "the records on disk are not the state in memory");
}

// Invariant 7: an order is about durable records.
void Oracle::performs(const Effect& effect, const Cluster& disk) const {
    const auto starts = started_by(effect);
    if (!starts) return;
    const auto run = disk.runs.find(starts->run);
    require(run != disk.runs.end(), "an order for a run that is not durable");
    require(run->second.attempts >= starts->number, "an order for an attempt that is not durable");
}

// Invariants 3 and 4: returns the newest commit on the live branch below an attempt.
std::string Oracle::newest_live(const Line& line, std::uint32_t below) const {
    auto claim = line.from.lower_bound(below);
    if (claim == line.from.begin()) return "";
    --claim;
    const auto committed = line.committed.find(claim->first);
    if (committed != line.committed.end() && !committed->second.empty()) return committed->second.back();
    return claim->second;
}

void Oracle::claimed(const std::string& run, std::uint32_t number, const std::string& from) {
    Line& line = lines_[run];
    require(line.from.empty() || line.from.rbegin()->first < number,
            run + ": attempt " + std::to_string(number) + " was claimed twice");
    const std::string newest = newest_live(line, number);
    require(from == newest, run + " attempt " + std::to_string(number) + " starts from \"" + from +
                                "\", the newest commit is \"" + newest + "\"");
    line.from[number] = from;
}

void Oracle::committed(const std::string& run, std::uint32_t attempt, const std::string& directory,
                       std::uint64_t report) {
    report_of_[{run, directory}] = report;
    lines_[run].committed[attempt].push_back(directory);
}

void Oracle::deleted(const std::string& run, const std::string& directory) {
    Line& line = lines_[run];
    const std::uint32_t highest = line.from.empty() ? 0 : line.from.rbegin()->first;
    require(latest_may_go_.contains(run) || directory != newest_live(line, highest + 1),
            run + ": the newest checkpoint " + directory + " was deleted");
    for (auto& [attempt, directories] : line.committed) std::erase(directories, directory);
}

void Oracle::started(const std::string& node, agent::AttemptKey key, std::uint32_t rank) {
    require(!emptied_.contains({node, key}),
            node + " starts rank " + std::to_string(rank) + " of an attempt that it had said to be gone");
    alive_[{node, key}].insert(rank);
}

void Oracle::exited(const std::string& node, agent::AttemptKey key, std::uint32_t rank, const ExitCause& cause) {
    alive_[{node, key}].erase(rank);
    if (cause.success()) succeeded_[key].insert(rank);
}

void Oracle::returned_early(agent::AttemptKey key, std::uint32_t rank, std::uint64_t report) {
    returned_early_[{key, rank}] = report;
    fault(key.run);
}

// Checks that a report passes only after every rank has reported. If a rank returned early while its agent was away, no
// agent may have its last report: then one more report passes.
void Oracle::passed(agent::AttemptKey key, std::uint64_t index, std::uint32_t world_size) const {
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
        const auto early = returned_early_.find({key, rank});
        if (early != returned_early_.end() && index == early->second + 1) continue;
        const auto come = reported_.find({key, rank});
        require(come != reported_.end() && come->second >= index,
                "report " + std::to_string(index) + " was passed before rank " + std::to_string(rank) + " had come");
    }
}

// Invariant 8: no worker outlives its attempt.
void Oracle::reported_emptied(const std::string& node, const protocol::AttemptRef& ref) {
    if (ref.incarnation == 0) return;
    const auto key = agent::key_of(ref);
    const auto entry = alive_.find({node, key});
    require(entry == alive_.end() || entry->second.empty(), node + " says it is empty, but a process is alive");
    emptied_.insert({node, key});
}

bool Oracle::accepted(const std::string& key, RunId run) {
    const auto [entry, fresh] = accepted_.emplace(key, run);
    require(fresh || entry->second == run, "one submission made two runs");
    return fresh;
}

// Checks that a run whose predecessor did not succeed never begins: it ends as its predecessor did, STOPPED or FAILED.
bool Oracle::check_lost_condition(const Run& run, const Cluster& disk) const {
    for (const After& after : run.spec.after) {
        if (condition_holds(after, disk)) continue;
        const bool stopped = (removed_.contains(after.run) ? removed_.at(after.run) : disk.runs.at(after.run).state) ==
                                 RunState::stopped ||
                             stop_asked_.contains(run.id);
        require(run.attempts == 0 && (run.state == RunState::failed || (stopped && run.state == RunState::stopped)),
                run.name + " is " + to_text(run.state) + ", its predecessor did not succeed");
        return true;
    }
    return false;
}

void Oracle::check_end_of(const Run& run, const Cluster& disk) const {
    const auto count = [&](const std::map<std::uint64_t, std::uint32_t>& of) {
        const auto entry = of.find(run.id.value);
        return entry == of.end() ? 0u : entry->second;
    };
    const std::uint32_t faults = count(faults_);
    require(run.failures <= faults, run.name + " counts " + std::to_string(run.failures) + " failures, but only " +
                                        std::to_string(faults) + " faults happened to it");
    const auto allowed = run.spec.failure.max_failures;
    const bool may_fail = permanent_.contains(run.id.value) || count(preparation_faults_) >= 5 ||
                          (allowed >= 0 && faults > static_cast<std::uint32_t>(allowed));
    if (check_lost_condition(run, disk)) return;
    const bool limited = run.spec.wall_time_limit && run.ended >= run.started + *run.spec.wall_time_limit;
    require(run.state != RunState::failed || may_fail || limited,
            run.name + " FAILED without cause: " + to_text(run.reason));
    require(run.state != RunState::stopped || stop_asked_.contains(run.id) || may_yield(run),
            run.name + " STOPPED though nobody asked");
    if (run.state != RunState::succeeded) return;
    const Attempt& last = disk.attempts.at({.run = run.id, .number = run.attempts});
    const auto ranks = succeeded_.find({run.id.value, last.incarnation});
    require(ranks != succeeded_.end() && ranks->second.size() == last.workers.size(),
            run.name + " SUCCEEDED, but not every rank ended with 0");
}

// Invariant 6: every accepted run has reached one terminal state. Invariants 2 and 8: nothing is held, no process is
// left.
void Oracle::ended(const Cluster& disk) const {
    for (const auto& [key, id] : accepted_) {
        if (removed_.contains(id)) continue;
        const auto run = disk.runs.find(id);
        require(run != disk.runs.end(), "run " + std::to_string(id.value) + " was accepted and forgotten");
        require(terminal(run->second.state), run->second.name + " never ended: it is " + to_text(run->second.state) +
                                                 " (" + to_text(run->second.reason) + ")");
        check_end_of(run->second, disk);
    }
    for (const NodeView& node : node_views(disk))
        require(node.free == node.total, node.id.value + " still holds something");
    for (const auto& [where, ranks] : alive_) require(ranks.empty(), where.first + " has a process that nobody wants");
}

}  // namespace rtrain::sim
