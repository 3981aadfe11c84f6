// The parts of `decide`, one function per event and the steps that they share. Inside of the core only.
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

// ---- steps of an attempt's life (attempts.cpp) ---------------------------------------------------------------------
void place_attempt(Change& change, RunId run, const Seats& seats);
void prepare_node(Change& change, const Attempt& attempt, const NodeId& node);
void stop_on_node(Change& change, const Attempt& attempt, const NodeId& node, const Reason& why);
void begin_stop(Change& change, AttemptId id, AttemptState end_as, const Reason& cause);
void work_ended(Change& change, AttemptId id, Duration ago);  // once: so long ago its workers' work was over
enum class Counts { yes, no };                                // against max_failures
void fail_attempt(Change& change, AttemptId id, AttemptState end_as, const Reason& cause, Counts counts);
void node_is_empty(Change& change, AttemptId id, const NodeId& node);  // of a stopping attempt
void end_run(Change& change, RunId id, RunState state, const Reason& reason);
void avoid(Change& change, RunId run, const NodeId& node);

// ---- asked for a checkpoint, and what follows it (checkpoint_requests.cpp)
void request_checkpoint(Change& change, AttemptId id,
                        CheckpointRequest request);  // of a running attempt; `asked` is filled in
void repeat_request(Change& change, const Attempt& attempt, const NodeId& node);
void end_for_request(Change& change, AttemptId id);  // what follows its request, now
// A commit of it has come, which fulfils the request of that time (0: none; not told: any).
void fulfil_request(Change& change, AttemptId id, std::optional<Time> answers);
void enforce_requests(Change& change);                    // deadlines
void withdraw_requests(Change& change);                   // of those who gave way to a run that waits no longer
void place_anew(Change& change, const Attempt& attempt);  // it has ended for its request

// ---- elastic.cpp
struct Unwanted {
    Outlook outlook;          // beside the seats that waiting runs have reserved
    std::set<NodeId> wanted;  // nodes that others could use
};
using MayHave = std::function<bool(const Run& run, std::uint32_t workers)>;  // what its quota says
void grow_elastic(Change& change, const Unwanted& open, const MayHave& may_have);
// Nodes that no waiting run of that priority or a higher one could use, within its quota, beside the seats that such
// runs have reserved.
Unwanted unwanted_nodes(Change& change, const Quotas& quotas, std::int32_t priority);
// Where it could be once it had stopped of its own accord: on its own seats and such nodes. None where a waiting run of
// higher priority would have its seats, or its part of a quota, before it.
std::vector<NodeView> nodes_left_to(Change& change, const Attempt& attempt, std::int32_t priority);
bool some_may_grow(const Cluster& cluster);
const std::vector<NodeView>& nodes_now(Change& change);
bool still_resizes(Change& change, const Attempt& attempt);  // at its commit, or deadline

// ---- drain.cpp
Error no_such_node(const NodeId& node);                    // nodes.cpp
bool still_moves(Change& change, const Attempt& attempt);  // at its commit
void request_if_draining(Change& change, AttemptId id);    // an attempt that begins to run
void enforce_drains(Change& change);                       // deadlines
// Whether the agent of a node that is taken away ended it, and its run is moved rather than failed.
bool is_taken_away(const Node& node);   // drained by its own agent, which is to end
bool is_out_of_disk(const Node& node);  // drained by its own agent, whose disk is nearly full
bool ended_by_its_node(const Cluster& cluster, const NodeId& id, const ExitCause& exit);
void end_for_drain(Change& change, AttemptId id, const NodeId& node);
void judge_nodes(Change& change, const Attempt& attempt);  // at its end: evidence for and against its nodes

// ---- dependencies.cpp
std::optional<Error> wrong_after(const Cluster& cluster, const RunSpec& spec);
std::vector<After> still_to_come(const Cluster& cluster, const RunSpec& spec);
void settle_dependents(Change& change, RunId id, RunState state);  // `id` has ended
void settle_array(Change& change, const Run& ended);
Reason blocked_by(const Cluster& cluster, const Run& run);  // why it is not to be placed yet; none: it is

// ---- arrays.cpp ----------------------------------------------------------------------------------------------------
void begin_array(Change& change, PendingArray array);  // makes the first runs; TimePassed makes the others
void continue_arrays(Change& change);
// Returns a name that the submission needs and that a pending array is to give to a run; nullopt if there is none.
std::optional<std::string> promised_name(const Cluster& cluster, const RunSubmitted& event);
// A run of the array has ended, and no made run waits for its place.
void release_place(Change& change, const Run& ended);

// ---- runs.cpp ------------------------------------------------------------------------------------------------------
Error no_such_run(const Cluster& cluster, RunId run);
void stop_run(Change& change, RunId id, AttemptState end_as, const Reason& reason);

// ---- one per event ------------------------------------------------------------------------------------------------
void on(Change& change, const HeadStarted& event);  // runs.cpp
void on(Change& change, const RunSubmitted& event);
void on(Change& change, const RunStopAsked& event);
void on(Change& change, const RunRemoved& event);
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
// The run knows these as well from now on: what earlier runs of its name committed.
void know_earlier(Change& change, RunId run, const std::vector<Checkpoint>& earlier);
void retain(Change& change, RunId run);                     // decides which checkpoints go
void repeat_deletions(Change& change, const NodeId& node);  // those this node is to carry out

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
