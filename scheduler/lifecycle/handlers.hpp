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
// Records that the attempt's workers have ended their work, `ago` before now. Called once per attempt.
void work_ended(Change& change, AttemptId id, Duration ago);
enum class Counts { yes, no };  // whether it counts against max_failures
void fail_attempt(Change& change, AttemptId id, AttemptState end_as, const Reason& cause, Counts counts);
// records that a stopping attempt has nothing left on the node
void node_is_empty(Change& change, AttemptId id, const NodeId& node);
void end_run(Change& change, RunId id, RunState state, const Reason& reason);
void avoid(Change& change, RunId run, const NodeId& node);

// ---- asked for a checkpoint, and what follows it (checkpoint_requests.cpp)
void request_checkpoint(Change& change, AttemptId id,
                        // requests a checkpoint from a running attempt; also sets the request's time `asked`
                        CheckpointRequest request);
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
    Outlook outlook;          // the nodes, without the seats that waiting runs have reserved
    std::set<NodeId> wanted;  // the nodes that waiting runs could use
};
// returns true if the run's quota permits this number of workers
using MayHave = std::function<bool(const Run& run, std::uint32_t workers)>;
// Returns the nodes that growing runs count on. `yielded`: the room of yielding runs, which end for them; null: none.
std::set<NodeId> grow_elastic(Change& change, const Unwanted& open, const MayHave& may_have, YieldedRoom* yielded);
// Returns the nodes that no waiting run of this priority or a higher one could use within its quota. Seats that such
// runs have reserved count as taken.
Unwanted unwanted_nodes(Change& change, const Quotas& quotas, std::int32_t priority);
// Returns the nodes on which the run of an attempt could be placed again if the attempt ended now: its own seats, and
// the nodes of unwanted_nodes. Returns none if a waiting run of higher priority would first take its seats, or its part
// of a quota.
std::vector<NodeView> nodes_left_to(Change& change, const Attempt& attempt, std::int32_t priority);
bool some_may_grow(const Cluster& cluster);
const std::vector<NodeView>& nodes_now(Change& change);
bool still_resizes(Change& change, const Attempt& attempt);  // checked at the attempt's commit, or at the deadline

// ---- drain.cpp
Error no_such_node(const NodeId& node);                    // defined in nodes.cpp
bool still_moves(Change& change, const Attempt& attempt);  // checked at the attempt's commit
void request_if_draining(Change& change, AttemptId id);    // called for an attempt that begins to run
void enforce_drains(Change& change);                       // acts on passed deadlines
// Returns true if the agent of a node that is being taken away has ended the process. Then the run is moved, and has
// not failed.
bool is_taken_away(const Node& node);   // drained by its own agent, which must end
bool is_out_of_disk(const Node& node);  // drained by its own agent, whose disk is nearly full
bool ended_by_its_node(const Cluster& cluster, const NodeId& id, const ExitCause& exit);
void end_for_drain(Change& change, AttemptId id, const NodeId& node);
// called at the attempt's end; adds evidence for or against its nodes
void judge_nodes(Change& change, const Attempt& attempt);

// ---- dependencies.cpp
std::optional<Error> wrong_after(const Cluster& cluster, const RunSpec& spec);
std::vector<After> still_to_come(const Cluster& cluster, const RunSpec& spec);
void settle_dependents(Change& change, RunId id, RunState state);  // `id` has ended
void settle_array(Change& change, const Run& ended);
// the reason why the run must not be placed yet; no reason if it may be placed
Reason blocked_by(const Cluster& cluster, const Run& run);

// ---- arrays.cpp ----------------------------------------------------------------------------------------------------
void begin_array(Change& change, PendingArray array);  // makes the first runs; TimePassed makes the others
void continue_arrays(Change& change);
// Returns a name in the submission that a pending array will give to a run; nullopt if there is none.
std::optional<std::string> promised_name(const Cluster& cluster, const RunSubmitted& event);
// Gives the place of an ended run of the array to a run that is still to be made, if no existing run waits for it.
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
void retain(Change& change, RunId run);  // decides which checkpoints to delete
// repeats the orders to delete checkpoints that this node carries out
void repeat_deletions(Change& change, const NodeId& node);

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
