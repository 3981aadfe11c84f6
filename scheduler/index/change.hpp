// Collects the effects of one event: the records that it changed, and what is to be done. Handlers edit records through
// a Change only, so that `save` contains every record that they touched. Used inside of the scheduler's core only.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/index/cluster.hpp"
#include "scheduler/model/decision.hpp"

namespace rtrain::core {

class Change {
  public:
    Change(Cluster& cluster, Time now) : cluster_(cluster), now_(now) {}

    const Cluster& seen() const { return cluster_; }
    ClusterIndex& index() { return cluster_.index; }
    Time now() const { return now_; }

    // Return the record itself for editing. Its value at the end of the event is saved.
    Node& edit(const NodeId& id);
    Run& edit(RunId id);
    Attempt& edit(AttemptId id);
    // Edit a part of an attempt without copying the whole record, whose size grows with the number of ranks.
    // Allocations do not change.
    Worker& edit(AttemptId id, Rank rank);
    void no_longer_waits(AttemptId id, const NodeId& node);
    Checkpoint& edit(const CheckpointKey& key);
    PendingArray& edit_array(RunId first);
    Meta& edit_meta();
    void add(Node node);
    void add(Run run);
    void add(Attempt attempt);
    void add(Checkpoint checkpoint);
    void add(PendingArray array);
    void erase_array(RunId first);
    void erase(const NodeId& id);
    void erase(RunId id);  // erases the run with its attempts and checkpoints
    void erase(const CheckpointKey& key);
    // The attempt's claim on storage has a higher number than its record: gives the record that number.
    void renumber(AttemptId from, std::uint32_t number);
    void configure(const Queues& queues);
    // Updates the list of budgets that are used up. Returns true if the passing of time may have changed the list.
    bool renew_budgets();
    void settle();  // Updates the cluster index and the queues' use to the present records.

    void act(Effect effect) { out_.act.push_back(std::move(effect)); }
    // Adds a text to the event's line in the audit. Users of the event's own run may read all of it. If the text may
    // contain words from another run's job, it is given with these words (`shown`) and without them (`hidden`).
    void note(std::string text) { notes_.push_back({.shown = std::move(text)}); }
    void note(RunId words_of, std::string shown, std::string hidden) {
        notes_.push_back({words_of, std::move(shown), std::move(hidden)});
    }
    // Sets the run that the event is about. Only the first call counts, because later calls come from consequences for
    // other runs.
    void about(RunId id) {
        if (!out_.about_run) out_.about_run = id;
    }
    void about(const NodeId& id) { out_.about_node = id; }
    void created(RunId id) { out_.created = id; }
    void refuse(Error error) { out_.refused = std::move(error); }
    void look_for_room() { room_ = true; }  // Requests a scheduling cycle: resources became free, or a run waits.
    void nodes_changed() { nodes_ = room_ = true; }
    bool refused() const { return out_.refused.has_value(); }
    bool room_looked_for() const { return room_; }
    bool nodes_have_changed() const { return nodes_; }
    bool queues_have_changed() const { return queues_; }
    // `given_back`: the resources that ended attempts have released since the last settle(). `given_back_on`: the nodes
    // on which they released them.
    const Sums& given_back() const { return given_back_; }
    const std::set<NodeId>& given_back_on() const { return given_back_on_; }

    Decision finish();

  private:
    struct Note {
        std::optional<RunId> words_of;
        std::string shown, hidden;
    };
    void pace_changes(RunId id);
    void save_values();
    void write_note();
    void save_attempts();
    void charge();
    void charge_budgets();
    void count_given_back();

    Cluster& cluster_;
    Time now_;
    Decision out_;
    std::vector<Note> notes_;
    bool meta_ = false, room_ = false, nodes_ = false, queues_ = false;
    ClusterIndex::Stale stale_;
    Sums given_back_;
    std::set<NodeId> given_back_on_;
    std::set<std::string> touched_use_;
    std::set<QueueUser> touched_budgets_, erased_budgets_;
    std::set<NodeId> touched_nodes_, erased_nodes_;
    std::set<RunId> touched_runs_, erased_runs_, touched_arrays_, erased_arrays_;
    std::set<AttemptId> touched_attempts_, erased_attempts_;
    std::set<std::pair<AttemptId, NodeId>> touched_waits_;
    std::set<std::pair<AttemptId, Rank>> touched_workers_;
    std::set<CheckpointKey> touched_checkpoints_, erased_checkpoints_;
};

}  // namespace rtrain::core
