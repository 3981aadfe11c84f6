// Checks the invariants of docs/architecture.md that one state shows. The simulator and the tests check them after each
// event.
#include <algorithm>
#include <set>

#include "scheduler/controller.hpp"
#include "scheduler/model/derived.hpp"

namespace rtrain {
namespace {

class Inspection {
  public:
    explicit Inspection(const Cluster& cluster) : cluster_(cluster) {}
    std::vector<std::string> broken;

    void runs();
    void attempts();
    void arrays();
    void nodes();
    void checkpoints();

  private:
    void expect(bool holds, const std::string& sentence) {
        if (!holds) broken.push_back(sentence);
    }
    void state_of(const Run& run, const std::string& name);
    void owner_of(const Run& run, const std::string& name);
    void gang_of(const Attempt& attempt, const std::string& name);
    void waiting_of(const Attempt& attempt, const std::string& name);

    const Cluster& cluster_;
};

std::string text_of(AttemptId id) {
    return "run " + std::to_string(id.run.value) + " attempt " + std::to_string(id.number);
}

void Inspection::state_of(const Run& run, const std::string& name) {
    const auto last = cluster_.attempts.find({.run = run.id, .number = run.attempts});
    const bool lives = last != cluster_.attempts.end() && !terminal(last->second.state);
    const AttemptState state = lives ? last->second.state : AttemptState::lost;
    switch (run.state) {
        case RunState::queued:
            return expect(!lives, name + " is QUEUED with a live attempt");
        case RunState::starting:
            return expect(lives && state != AttemptState::running,
                          name + " is STARTING without an attempt that starts");
        case RunState::running:
            return expect(lives && (state == AttemptState::running || state == AttemptState::stopping),
                          name + " is RUNNING without an attempt that runs");
        case RunState::recovering:
            return expect(!lives && run.attempts > 0, name + " is RECOVERING with a live attempt, or without any");
        case RunState::resizing:
            return expect(lives, name + " is RESIZING without an attempt");
        case RunState::stopping:
            return expect(state == AttemptState::stopping, name + " is STOPPING, its attempt is not");
        case RunState::succeeded:
        case RunState::failed:
        case RunState::stopped:
            return expect(!lives && run.ended >= run.submitted, name + " is over but an attempt lives");
    }
}

void Inspection::runs() {
    std::set<std::string> names;
    for (const auto& [id, run] : cluster_.runs) {
        const std::string name = "run " + std::to_string(id.value);
        expect(run.id == id && id.value < cluster_.meta.next_run, name + " has an id that the counter has not given");
        if (!terminal(run.state)) expect(names.insert(run.name).second, "two live runs are called " + run.name);
        const auto& limit = run.spec.failure.max_failures;
        if (limit >= 0 && !terminal(run.state))
            expect(run.failures <= static_cast<std::uint32_t>(limit), name + " goes on beyond max_failures");
        state_of(run, name);
        if (may_yield(run)) owner_of(run, name);
    }
}

// A helper ends in the transaction that ends its owner, or takes the owner's seats.
void Inspection::owner_of(const Run& run, const std::string& name) {
    expect(!yields(run) || run.nodes_reserved.empty(), name + " yields, and has a reservation");
    if (run.parent.value == 0 || terminal(run.state) || run.state == RunState::stopping) return;
    const auto owner = cluster_.runs.find(run.parent);
    const RunState state = owner == cluster_.runs.end() ? RunState::stopped : owner->second.state;
    expect(!terminal(state) && state != RunState::stopping && state != RunState::queued,
           name + " outlives its owner, which is " + to_text(state));
}

void Inspection::arrays() {
    for (const auto& [first, array] : cluster_.arrays) {
        const std::string name = "the pending array " + array.model.name;
        expect(array.model.id == first, name + " has another id than its first run");
        expect(array.runs_made > 0 && array.runs_made < array.indices.size(),
               name + " has no run left to make, or none made");
        expect(first.value + array.indices.size() <= cluster_.meta.next_run, name + " has ids that were not taken");
        const auto beyond = cluster_.runs.lower_bound({first.value + array.runs_made});
        expect(beyond == cluster_.runs.end() || beyond->first.value >= first.value + array.indices.size(),
               name + " has made a run that it counts as unmade");
    }
}

void Inspection::gang_of(const Attempt& attempt, const std::string& name) {
    const auto& bundles = cluster_.runs.at(attempt.id.run).spec.gang.bundles;
    const Run& run = cluster_.runs.at(attempt.id.run);
    const bool one_size = !run.spec.elastic && run.workers_asked == 0;
    const std::size_t least = one_size ? bundles.size() : run.spec.elastic ? run.spec.elastic->workers_min : 1;
    expect(attempt.workers.size() >= least && attempt.workers.size() <= bundles.size(),
           name + " holds " + std::to_string(attempt.workers.size()) + " bundles of " + std::to_string(least) + " to " +
               std::to_string(bundles.size()));
    for (std::size_t i = 0; i < std::min(bundles.size(), attempt.workers.size()); ++i) {
        Amount shares;
        for (const GpuShare& share : attempt.workers[i].seat.gpus) shares = shares + share.amount;
        expect(shares == amount_of(bundles[i].demand, gpu_key),
               name + " rank " + std::to_string(i) + " holds other GPUs than it needs");
        expect(!attempt.workers[i].seat.node.value.empty(), name + " rank " + std::to_string(i) + " has no seat");
    }
}

void Inspection::waiting_of(const Attempt& attempt, const std::string& name) {
    const bool waits = attempt.state == AttemptState::placed || attempt.state == AttemptState::stopping;
    expect(waits != attempt.nodes_waiting.empty(), name + " is " + to_text(attempt.state) + " and waits for " +
                                                       std::to_string(attempt.nodes_waiting.size()) + " nodes");
    std::set<NodeId> seen;
    for (const NodeId& node : attempt.nodes_waiting) {
        expect(core::on_node(attempt, node) && seen.insert(node).second,
               name + " waits for " + node.value + " wrongly");
        const auto known = cluster_.nodes.find(node);
        expect(known != cluster_.nodes.end() && known->second.state != NodeState::lost,
               name + " waits for a node that is gone");
    }
}

void Inspection::attempts() {
    std::set<RunId> live;
    std::set<std::uint32_t> incarnations;
    for (const auto& [id, attempt] : cluster_.attempts) {
        const std::string name = text_of(id);
        const auto run = cluster_.runs.find(id.run);
        expect(run != cluster_.runs.end() && attempt.id == id, name + " has no run");
        if (run == cluster_.runs.end()) continue;
        expect(id.number >= 1 && id.number <= run->second.attempts, name + " is beyond its run's numbers");
        expect(attempt.incarnation < cluster_.meta.next_incarnation && incarnations.insert(attempt.incarnation).second,
               name + " shares its incarnation");
        expect(!attempt.first_failure || attempt.first_failure->value < attempt.workers.size(),
               name + " blames a rank it has not");
        expect(terminal(attempt.end_as), name + " would end as " + to_text(attempt.end_as));
        if (terminal(attempt.state)) continue;
        expect(live.insert(id.run).second, name + " lives beside another attempt of its run");
        expect(id.number == run->second.attempts, name + " lives though a higher number was given");
        gang_of(attempt, name);
        waiting_of(attempt, name);
    }
}

void Inspection::nodes() {
    std::map<NodeId, Resources> allocated;
    std::map<NodeId, std::map<std::uint32_t, Amount>> gpus;
    for (const auto& [id, attempt] : cluster_.attempts) {
        // A node that came back smaller may exceed its total for as long as the preempted attempts take to end.
        if (terminal(attempt.state) || attempt.state == AttemptState::stopping || !cluster_.runs.contains(id.run))
            continue;
        const auto& bundles = cluster_.runs.at(id.run).spec.gang.bundles;
        for (std::size_t i = 0; i < std::min(bundles.size(), attempt.workers.size()); ++i) {
            const Seat& seat = attempt.workers[i].seat;
            add(allocated[seat.node], bundles[i].demand);
            for (const GpuShare& share : seat.gpus)
                gpus[seat.node][share.device] = gpus[seat.node][share.device] + share.amount;
        }
    }
    for (const auto& [id, resources] : allocated) {
        const auto node = cluster_.nodes.find(id);
        if (node == cluster_.nodes.end()) continue;
        for (const auto& [name, amount] : resources)
            expect(name == gpu_key || amount <= amount_of(node->second.total, name),
                   id.value + " gave away " + to_text(amount) + " " + name + " of " +
                       to_text(amount_of(node->second.total, name)));
        for (const auto& [device, amount] : gpus[id])
            expect(device < node->second.gpus && amount <= units(1),
                   id.value + " gave away too much of GPU " + std::to_string(device));
    }
}

void Inspection::checkpoints() {
    for (const auto& [key, checkpoint] : cluster_.checkpoints) {
        const auto run = cluster_.runs.find(key.run);
        expect(run != cluster_.runs.end(), key.directory + " belongs to no run");
        if (run == cluster_.runs.end()) continue;
        expect(checkpoint.earlier || (checkpoint.sequence >= 1 && checkpoint.sequence <= run->second.checkpoints),
               key.directory + " is out of sequence");
        const Checkpoint* latest = latest_checkpoint(cluster_, key.run);
        const bool later =
            latest != nullptr && (latest->attempt > checkpoint.attempt ||
                                  (latest->attempt == checkpoint.attempt && latest->sequence > checkpoint.sequence));
        const bool may_go = latest != nullptr && run->second.state == RunState::succeeded &&
                            run->second.spec.retention.latest_until_success;
        expect(!checkpoint.deleting || later || may_go, key.directory + " is the latest commit and is being deleted");
        const Attempt* live = core::live_attempt(cluster_, key.run);
        expect(!checkpoint.deleting || live == nullptr || live->from != key.directory,
               key.directory + " is being deleted though an attempt started from it");
    }
}

}  // namespace

std::vector<std::string> invariants(const Cluster& cluster) {
    Inspection inspection(cluster);
    inspection.runs();
    inspection.arrays();
    inspection.attempts();
    inspection.nodes();
    inspection.checkpoints();
    if (cluster.index.in_step())
        for (std::string& wrong : cluster.index.faults(cluster)) inspection.broken.push_back(std::move(wrong));
    return std::move(inspection.broken);
}

}  // namespace rtrain
