// One event's doing: what it touched and what is to be done about it. Inside of the core only.
// Handlers edit records through a Change, so that nothing they touch can be forgotten in `save`.
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

    // The record itself, to be changed; it is saved as it is when the event has been dealt with.
    Node& edit(const NodeId& id);
    Run& edit(RunId id);
    Attempt& edit(AttemptId id);
    // Of an attempt that may be long, this alone: neither changes who holds what.
    Worker& edit(AttemptId id, Rank rank);
    void no_longer_waits(AttemptId id, const NodeId& node);
    Checkpoint& edit(const CheckpointKey& key);
    Meta& edit_meta();
    void add(Node node);
    void add(Run run);
    void add(Attempt attempt);
    void add(Checkpoint checkpoint);
    void erase(const NodeId& id);
    void erase(RunId id);  // with attempts and checkpoints
    void erase(const CheckpointKey& key);
    void renumber(AttemptId from, std::uint32_t number);  // a claim took a higher number
    void configure(const Queues& queues);
    void settle();  // brings the cluster index, and the queues' use, to what the records say now

    void act(Effect effect) { out_.act.push_back(std::move(effect)); }
    // Adds to the event's line. The users of the run that the event is about read all of it: of another run's job the
    // line holds no words, so a text that may have some is given with and without them.
    void note(std::string text) { notes_.push_back({.shown = std::move(text)}); }
    void note(RunId words_of, std::string shown, std::string hidden) {
        notes_.push_back({words_of, std::move(shown), std::move(hidden)});
    }
    void about(RunId id) {  // the first one counts: what follows from its event may touch others
        if (!out_.about_run) out_.about_run = id;
    }
    void about(const NodeId& id) { out_.about_node = id; }
    void created(RunId id) { out_.created = id; }
    void refuse(Error error) { out_.refused = std::move(error); }
    void look_for_room() { room_ = true; }  // something was freed, came, or waits: a scheduling cycle is due
    void nodes_changed() { nodes_ = room_ = true; }
    bool refused() const { return out_.refused.has_value(); }
    bool room_looked_for() const { return room_; }
    bool nodes_have_changed() const { return nodes_; }
    bool queues_have_changed() const { return queues_; }
    // By attempts that have ended, until the last settle: how much, and where.
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
    std::set<NodeId> touched_nodes_, erased_nodes_;
    std::set<RunId> touched_runs_, erased_runs_;
    std::set<AttemptId> touched_attempts_, erased_attempts_;
    std::set<std::pair<AttemptId, NodeId>> touched_waits_;
    std::set<std::pair<AttemptId, Rank>> touched_workers_;
    std::set<CheckpointKey> touched_checkpoints_, erased_checkpoints_;
};

}  // namespace rtrain::core
