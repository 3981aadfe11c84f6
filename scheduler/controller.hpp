// The core: one event in, what to save and what to do out. Reads no clock, socket, file or random device.
//
//   event ─► decide(cluster, now, event) ─► Decision{save, act}
//
// The shell makes `save` durable together with the event in one transaction, then performs `act` in order. Results of
// effects come back as events. An event about an attempt that is over changes nothing.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/events.hpp"
#include "scheduler/ledger.hpp"
#include "scheduler/records.hpp"

namespace rtrain {

struct Cluster {
    Meta meta;
    std::map<NodeId, Node> nodes;
    std::map<RunId, Run> runs;
    std::map<AttemptId, Attempt> attempts;
    std::map<CheckpointKey, Checkpoint> checkpoints;
    Queues queues;
    std::map<std::string, QueueUse> use;  // of configured queues
    Ledger ledger;                        // follows from the records
    bool operator==(const Cluster&) const = default;
};

// clang-format off: one a line where they fit
struct Decision {
    std::vector<Record> save;
    std::vector<Effect> act;
    std::string note;                // one line for `rtrain events`; empty: not worth showing
    std::optional<RunId> about_run;  // what the note is about
    std::optional<NodeId> about_node;
    std::optional<RunId> created;         // RunSubmitted: the new run, or the one its key made before
    std::optional<Error> refused;         // a request that cannot be: nothing is saved (name taken, run not terminal, ...)
    bool operator==(const Decision&) const = default;
};

Decision decide(Cluster& cluster, Time now, const Event& event);
std::optional<Time> next_wake(const Cluster& cluster);  // when TimePassed is due; none: nothing waits for time

void apply(Cluster& cluster, const Record& record);      // opening from disk: records only
std::vector<std::string> invariants(const Cluster& cluster);  // what does not hold (design 11), empty when all is well
const Checkpoint* latest_checkpoint(const Cluster& cluster, RunId run);  // the newest commit that is not being deleted; null: none
NodeId deletes_for(const Cluster& cluster, const Run& run);  // whom to have a checkpoint removed by; empty: nobody is ready
std::vector<NodeView> node_views(const Cluster& cluster);     // free amounts, from attempts that hold bundles

// ---- for people ---------------------------------------------------------------------------------------------------
struct QueuePosition { std::uint32_t position = 0, length = 0; bool operator==(const QueuePosition&) const = default; };
std::vector<RunId> queue_order(const Cluster& cluster);  // waiting runs: priority, then fair share, then age
struct ReasonGroup {  // nodes that do not fit for the same kind of reason
    std::uint32_t nodes = 0;
    std::string kind;   // "GPUs busy", "constraint", "draining", ...
    std::string text;   // "n1-n3 by gpt-1b (ETA 2h11), n4 by vit (ETA unknown)"
    std::string field;  // of the spec, where that is what stands in the way: "scaling.label_selector"
};
struct Explanation {
    std::string headline;  // QUEUED 12m, position 1 of 2 in queue "default". Needs 4 nodes x 8 GPU, all at once.
    std::optional<QueuePosition> queue;
    std::vector<std::string> rules;            // of its queue: quota, order, reservation, why it may not start yet
    std::optional<PlacementAnswer> placement;  // for a waiting run
    std::uint32_t nodes = 0, fitting = 0;      // considered; with room for at least one bundle
    std::vector<ReasonGroup> groups;           // the others, the largest group first
    std::vector<std::string> holders;          // "n1: 8 GPU by gpt-1b (attempt 2), ETA 2h11"
};
Explanation explain(const Cluster& cluster, Time now, RunId run);

}  // namespace rtrain
