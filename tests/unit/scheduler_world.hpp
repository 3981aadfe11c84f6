// A cluster for stories. It passes events to the core. After each event it checks the invariants, and that `save`,
// applied to a copy, gives the same state.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scheduler/controller.hpp"
#include "tests/unit/catch.hpp"

namespace rtrain::stories {

struct Job {
    std::string name = "job";
    std::uint32_t workers = 1;
    std::int64_t cpus = 1;
    Amount gpus{};
    Strategy placement = Strategy::pack;
    std::int32_t max_failures = 0;
    bool fail_fast = false;
    std::int32_t priority = 50;
    bool wait_for_nodes = true;
    Retention retention{};
    std::optional<Duration> wall_time{}, queue_time{};
    std::string submit_key{};
    std::uint32_t workers_min = 0;  // elastic if not 0
    bool on_drain = true;
    std::vector<After> after{};
};

inline Bundle bundle(std::int64_t cpus, Amount gpus = {}) {
    Bundle made;
    if (cpus > 0) made.demand["CPU"] = units(cpus);
    if (gpus.ticks > 0) made.demand["GPU"] = gpus;
    return made;
}

inline RunSubmitted submission(const Job& job) {
    RunSubmitted event;
    event.name = job.name;
    event.user = "ana";
    event.submit_key = job.submit_key;
    event.storage_path = "/runs";
    event.job_json = "{}";
    event.spec.gang.bundles.assign(job.workers, bundle(job.cpus, job.gpus));
    event.spec.gang.strategy = job.placement;
    event.spec.priority = job.priority;
    event.spec.wait_for_nodes = job.wait_for_nodes;
    event.spec.failure.max_failures = job.max_failures;
    event.spec.failure.fail_fast = job.fail_fast;
    event.spec.retention = job.retention;
    event.spec.wall_time_limit = job.wall_time;
    event.spec.queue_time_limit = job.queue_time;
    if (job.workers_min > 0) event.spec.elastic = Elastic{.workers_min = job.workers_min, .grow_after = {30'000}};
    event.spec.checkpoint_on_drain = job.on_drain;
    event.spec.after = job.after;
    return event;
}

inline NodeRegistered node(const std::string& name, std::int64_t cpus = 4, std::uint32_t gpus = 0) {
    NodeRegistered event;
    event.node = {name};
    event.address = "10.0.0." + name.substr(1);
    event.port = 7434;
    event.total["CPU"] = units(cpus);
    event.gpus = gpus;
    return event;
}

inline ExitCause exit_code(std::int32_t code) {
    ExitCause cause;
    cause.exit_code = code;
    return cause;
}
inline ExitCause killed(std::int32_t signal) {
    ExitCause cause;
    cause.signal = signal;
    return cause;
}

template <class Effect>
std::vector<Effect> all_of(const Decision& decision) {
    std::vector<Effect> effects;
    for (const auto& effect : decision.act)
        if (const auto* one = std::get_if<Effect>(&effect)) effects.push_back(*one);
    return effects;
}

class World {
  public:
    Cluster cluster;
    Time now{1'000};
    Decision last;

    World() {
        cluster.meta.cluster_id = "c0ffee00";
        saved_.meta = cluster.meta;
    }

    const Decision& tell(const Event& event) {
        last = decide(cluster, now, event);
        for (const Record& record : last.save) apply(saved_, record);
        REQUIRE(saved_ == cluster);
        REQUIRE(invariants(cluster) == std::vector<std::string>{});
        if (last.refused) REQUIRE(last.save.empty());
        return last;
    }
    void pass(std::int64_t ms) {  // Lets time pass, with every wake-up on the way.
        const Time end{now.ms + ms};
        for (auto wake = next_wake(cluster); wake && *wake <= end; wake = next_wake(cluster)) {
            now = std::max(now, *wake);
            tell(TimePassed{});
        }
        now = end;
    }
    void nodes(int count, std::int64_t cpus = 4, std::uint32_t gpus = 0) {
        for (int i = 1; i <= count; ++i) tell(node("n" + std::to_string(i), cpus, gpus));
    }
    RunId submit(const Job& job) {
        tell(submission(job));
        REQUIRE(last.created);
        return *last.created;
    }
    const Run& run(RunId id) const { return cluster.runs.at(id); }
    AttemptId attempt_id(RunId id) const { return {.run = id, .number = run(id).attempts}; }
    const Attempt& attempt(RunId id) const { return cluster.attempts.at(attempt_id(id)); }
    const NodeId& node_of(RunId id, std::uint32_t rank) const { return attempt(id).workers.at(rank).seat.node; }

    // Reports every node as prepared. Rank 0's node claims `claim` (0: the requested number).
    void prepare(RunId id, std::uint32_t claim = 0, const std::string& from = "") {
        const auto waiting = attempt(id).nodes_waiting;
        const NodeId first = node_of(id, 0);
        for (const NodeId& name : waiting) {
            NodePrepared event{.attempt = attempt_id(id), .incarnation = attempt(id).incarnation, .node = name};
            if (name == first) {
                event.claimed_number = claim == 0 ? event.attempt.number : claim;
                event.from = from;
                event.master_address = "10.0.0.1";
                event.master_port = 20'000;
            }
            tell(event);
        }
    }
    void start(RunId id) {
        for (std::uint32_t rank = 0; rank < attempt(id).workers.size(); ++rank)
            tell(WorkerStarted{.attempt = attempt_id(id), .rank = {rank}, .pid = 100 + rank});
    }
    void exits(RunId id, std::uint32_t rank, ExitCause cause, std::int64_t wall_us = 0) {
        tell(WorkerExited{
            .attempt = attempt_id(id), .rank = {rank}, .cause = std::move(cause), .exit_wall_us = wall_us});
    }
    void empties(RunId id) {  // Reports every node of a stopping attempt as empty.
        const AttemptId of = attempt_id(id);
        const auto waiting = attempt(id).nodes_waiting;
        for (const NodeId& name : waiting) tell(NodeEmptied{.attempt = of, .node = name});
    }
    RunId running(const Job& job, const std::string& from = "") {
        const RunId id = submit(job);
        prepare(id, 0, from);
        start(id);
        REQUIRE(run(id).state == RunState::running);
        return id;
    }
    void commits(RunId id, const std::string& directory, std::map<std::string, double> metrics = {}) {
        tell(CheckpointCommitted{.attempt = attempt_id(id),
                                 .directory = directory,
                                 .world_size = 1,
                                 .bytes = 10,
                                 .metrics = std::move(metrics)});
    }
    std::vector<std::string> kept(RunId id) const {
        std::vector<std::string> names;
        for (const auto& [key, checkpoint] : cluster.checkpoints)
            if (key.run == id && !checkpoint.deleting) names.push_back(key.directory);
        return names;
    }

  private:
    Cluster saved_;
};

inline RunId submit_to(World& world, const std::string& queue, const Job& job) {
    RunSubmitted event = submission(job);
    event.spec.queue = queue;
    world.tell(event);
    REQUIRE(world.last.created);
    return *world.last.created;
}

}  // namespace rtrain::stories
