// The parts of `decide`: one function per event, and their common steps. Used inside of the core only.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "scheduler/index/change.hpp"
#include "scheduler/index/outlook.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/model/notes.hpp"

namespace rtrain::core {

class Quotas;
class YieldedRoom;

// ---- steps of an attempt's life (attempts.cpp) ---------------------------------------------------------------------
void place_attempt(Change& change, RunId run, const Seats& seats);
void prepare_node(Change& change, const Attempt& attempt, const NodeId& node);
void stop_on_node(Change& change, const Attempt& attempt, const NodeId& node, const Reason& why);
void begin_stop(Change& change, AttemptId id, AttemptState end_as, const Reason& cause);
// Called once; `ago`: the time since the end of its workers' work.
void work_ended(Change& change, AttemptId id, Duration ago);
enum class Counts { yes, no };  // whether it counts against max_failures
void fail_attempt(Change& change, AttemptId id, AttemptState end_as, const Reason& cause, Counts counts);
void node_is_empty(Change& change, AttemptId id, const NodeId& node);  // for a stopping attempt
void end_run(Change& change, RunId id, RunState state, const Reason& reason);
void avoid(Change& change, RunId run, const NodeId& node);

// ---- asked for a checkpoint, and what follows it (checkpoint_requests.cpp)
void request_checkpoint(Change& change, AttemptId id,
                        CheckpointRequest request);  // for a running attempt; sets `asked`
void repeat_request(Change& change, const Attempt& attempt, const NodeId& node);
void end_for_request(Change& change, AttemptId id);  // ends the attempt as its request requires
// Handles a commit of the attempt that fulfils the request of the time `answers` (0: none; nullopt: any).
void fulfil_request(Change& change, AttemptId id, std::optional<Time> answers);
void enforce_requests(Change& change);                    // acts on passed deadlines
void enforce_budgets(Change& change);                     // preempts runs whose budget is used up
void withdraw_requests(Change& change);                   // withdraws the requests for a preemptor that no longer waits
void place_anew(Change& change, const Attempt& attempt);  // places a run again whose attempt has ended for its request

// ---- elastic.cpp
struct Unwanted {
    Outlook outlook;          // beside the seats that waiting runs have reserved
    std::set<NodeId> wanted;  // nodes that waiting runs could use
};
using MayHave = std::function<bool(const Run& run, std::uint32_t workers)>;  // returns whether the quota allows that
// Returns the nodes that growing runs count on. `yielded`: the room of yielding runs, which end for them; null: none.
std::set<NodeId> grow_elastic(Change& change, const Unwanted& open, const MayHave& may_have, YieldedRoom* yielded);
// Nodes that no waiting run of that priority or a higher one could use, within its quota, beside the seats that such
// runs have reserved.
Unwanted unwanted_nodes(Change& change, const Quotas& quotas, std::int32_t priority);
// Returns the nodes for an attempt that would end by itself: its own seats, and nodes of the kind above. Empty if a
// waiting run of higher priority would take its seats, or its part of a quota, first.
std::vector<NodeView> nodes_left_to(Change& change, const Attempt& attempt, std::int32_t priority);
bool some_may_grow(const Cluster& cluster);
const std::vector<NodeView>& nodes_now(Change& change);
bool still_resizes(Change& change, const Attempt& attempt);  // at its commit, or at the deadline

// ---- drain.cpp
Error no_such_node(const NodeId& node);                    // nodes.cpp
bool still_moves(Change& change, const Attempt& attempt);  // at its commit
void request_if_draining(Change& change, AttemptId id);    // for an attempt that begins to run
void enforce_drains(Change& change);                       // acts on passed deadlines
// Whether the agent of a node that is taken away ended it, and its run is moved rather than failed.
bool is_taken_away(const Node& node);   // drained by its own agent, which must end
bool is_out_of_disk(const Node& node);  // drained by its own agent, whose disk is nearly full
bool ended_by_its_node(const Cluster& cluster, const NodeId& id, const ExitCause& exit);
void end_for_drain(Change& change, AttemptId id, const NodeId& node);
void judge_nodes(Change& change, const Attempt& attempt);  // at its end: evidence for and against its nodes

// ---- dependencies.cpp
std::optional<Error> wrong_after(const Cluster& cluster, const RunSpec& spec);
std::vector<After> still_to_come(const Cluster& cluster, const RunSpec& spec);
void settle_dependents(Change& change, RunId id, RunState state);  // `id` has ended
void settle_array(Change& change, const Run& ended);
Reason blocked_by(const Cluster& cluster, const Run& run);  // why it must not be placed yet; none if it may be

// ---- arrays.cpp ----------------------------------------------------------------------------------------------------
void begin_array(Change& change, PendingArray array);  // makes the first runs; TimePassed makes the others
void continue_arrays(Change& change);
// Returns a name in the submission that a pending array will give to a run; nullopt if there is none.
std::optional<std::string> promised_name(const Cluster& cluster, const RunSubmitted& event);
// Handles the end of a run of the array when no run that is made waits for its place.
void release_place(Change& change, const Run& ended);

// ---- yielding.cpp --------------------------------------------------------------------------------------------------
std::optional<Error> wrong_helper(const Cluster& cluster, const RunSubmitted& event);
void end_for(Change& change, RunId yielding, const Run& other);  // ends it so that the other run starts
void end_helpers(Change& change, RunId owner);                   // ends the runs that belong to the owner
bool ends_for_others(const Reason& reason);  // true if the reason ends a run as STOPPED that nobody has stopped

// ---- runs.cpp ------------------------------------------------------------------------------------------------------
Error no_such_run(const Cluster& cluster, RunId run);
void stop_run(Change& change, RunId id, AttemptState end_as, const Reason& reason);

// ---- one per event ------------------------------------------------------------------------------------------------
void on(Change& change, const HeadStarted& event);  // runs.cpp
void on(Change& change, const RunSubmitted& event);
void on(Change& change, const RunStopAsked& event);
void on(Change& change, const RunRemoved& event);
void on(Change& change, const RunPriorityChanged& event);
void on(Change& change, const RunYieldsChanged& event);    // yielding.cpp
void on(Change& change, const RunCheckpointAsked& event);  // checkpoint_requests.cpp
void on(Change& change, const RunResizeAsked& event);      // elastic.cpp
void on(Change& change, const StopMetricReached& event);
void on(Change& change, const UserLimitReached& event);
void on(Change& change, const TimePassed& event);
void on(Change& change, const QueuesConfigured& event);
void on(Change& change, const NodeRegistered& event);  // nodes.cpp
void on(Change& change, const NodeLost& event);
void on(Change& change, const NodeLeft& event);
void on(Change& change, const NodeDrained& event);
void on(Change& change, const NodeQuarantined& event);
void on(Change& change, const NodeUndrained& event);
void on(Change& change, const NodePrepared& event);  // workers.cpp
void on(Change& change, const NodePrepareFailed& event);
void on(Change& change, const WorkerStarted& event);
void on(Change& change, const FirstReport& event);
void on(Change& change, const WorkerExited& event);
void on(Change& change, const NodeEmptied& event);
void on(Change& change, const CheckpointCommitted& event);  // checkpoints.cpp
void on(Change& change, const CheckpointLost& event);
void on(Change& change, const CheckpointDeleted& event);
void on(Change& change, const CheckpointValidated& event);
void on(Change& change, const CheckpointVerified& event);

// ---- checkpoints.cpp ----------------------------------------------------------------------------------------------
// Adds to the run the committed checkpoints of earlier runs of its name.
void know_earlier(Change& change, RunId run, const std::vector<Checkpoint>& earlier);
void retain(Change& change, RunId run);                     // decides which checkpoints to delete
void repeat_deletions(Change& change, const NodeId& node);  // repeats the orders for this node

// ---- preempt.cpp --------------------------------------------------------------------------------------------------
// Requests checkpoints of the runs that must be preempted so that the waiting run fits on nodes of the mask. Returns
// when they are gone, and whether a request is new; nullopt if the run would not fit, or may not preempt them.
struct PreemptionRequested {
    bool requested_now = false;
    Time by;
};
std::optional<PreemptionRequested> request_preemption(Change& change, const Quotas& quotas, RunId waiting,
                                                      ReservationMask open = every_reservation);

}  // namespace rtrain::core
