// The reasons of reason.hpp, one struct each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/model/exit_cause.hpp"
#include "scheduler/model/gang.hpp"
#include "scheduler/model/ids.hpp"
#include "scheduler/model/resources.hpp"

namespace rtrain {

enum class RunState;   // records.hpp
enum class AfterWhat;  // policies.hpp

class Reason;

// `kind` names a reason on disk and in the API, and never changes. A `cause` has one element or none.
// clang-format off: one a line where they fit
namespace reasons {

struct None { static constexpr const char* kind = "none"; bool operator==(const None&) const = default; };
struct Text {  // a sentence that an earlier version stored: shown to people, never read by decisions
    static constexpr const char* kind = "text";
    std::string text; bool operator==(const Text&) const = default;
};

// ---- why a run waits ----------------------------------------------------------------------------------------------
struct NoRoom { static constexpr const char* kind = "no_room"; bool operator==(const NoRoom&) const = default; };
struct NeverFits {  // no present node could ever hold it
    static constexpr const char* kind = "never_fits";
    std::vector<NodeReason> nodes;  // the reasons of the first few nodes
    bool operator==(const NeverFits&) const = default;
};
struct QuotaFull {
    static constexpr const char* kind = "quota_full";
    std::string queue, resource;  // the queue that has this quota: the run's own queue, or one above it
    Sum held, requested;
    Amount quota;
    Sum reserved{};  // amount that is kept free for preemptors
    bool operator==(const QuotaFull&) const = default;
};
struct QuotaReclaimed {  // the run could borrow from another queue, but a run of that queue waits for its own quota
    static constexpr const char* kind = "quota_reclaimed";
    std::string queue, resource; bool operator==(const QuotaReclaimed&) const = default;
};
struct QueueUserLimit {  // contains no amount that changes while the run waits, so that many runs of a user share the reason
    static constexpr const char* kind = "queue_user_limit";
    std::string queue, resource;  // resource: "runs" or "GPU"
    Sum requested;
    Amount limit;
    bool operator==(const QueueUserLimit&) const = default;
};
struct BudgetUsed {  // contains no amount that changes while the run waits; `of_user`: the budget is that of the run's user there
    static constexpr const char* kind = "budget_used"; std::string queue; bool of_user = false;
    Amount gpu_hours; Duration window; bool operator==(const BudgetUsed&) const = default;
};
struct Predecessor { std::string name; AfterWhat until{}; bool operator==(const Predecessor&) const = default; };
struct AfterRuns {
    static constexpr const char* kind = "after_runs";
    std::vector<Predecessor> runs; bool operator==(const AfterRuns&) const = default;
};
struct ArrayLimit {
    static constexpr const char* kind = "array_limit";
    std::string array; std::uint32_t parallel = 0; bool operator==(const ArrayLimit&) const = default;
};

// ---- why a run ended, or ends -------------------------------------------------------------------------------------
struct PredecessorEnded {
    static constexpr const char* kind = "predecessor_ended";
    std::string name; RunState state{}; bool operator==(const PredecessorEnded&) const = default;
};
struct StoppedBy {
    static constexpr const char* kind = "stopped_by";
    std::string user;
    std::vector<Reason> cause;  // cause of the end of an attempt that had ended before
    bool operator==(const StoppedBy&) const = default;
};
struct QueueTime { static constexpr const char* kind = "queue_time"; bool operator==(const QueueTime&) const = default; };
struct WallTime { static constexpr const char* kind = "wall_time"; bool operator==(const WallTime&) const = default; };
struct FailuresSpent {
    static constexpr const char* kind = "failures_spent";
    std::uint32_t failures = 0, max_failures = 0;
    std::vector<Reason> cause; bool operator==(const FailuresSpent&) const = default;
};
struct YieldedTo {  // it yielded to this run, which starts by its end
    static constexpr const char* kind = "yielded_to"; std::string run, user, queue; bool operator==(const YieldedTo&) const = default;
};
struct OwnerEnded {  // its owner has ended, is being stopped or preempted, or waits in the queue
    static constexpr const char* kind = "owner_ended"; std::string owner; bool operator==(const OwnerEnded&) const = default;
};
struct UserLimit {  // the run's user has reached a limit of stored data, so the run makes no further attempts
    static constexpr const char* kind = "user_limit";
    std::string limit;  // the limit, the bytes that are kept, and what to do
    std::vector<Reason> cause; bool operator==(const UserLimit&) const = default;
};
struct FailFast {
    static constexpr const char* kind = "fail_fast"; std::vector<Reason> cause; bool operator==(const FailFast&) const = default;
};
struct StartsFailed {  // several attempts in a row failed before their workers trained
    static constexpr const char* kind = "starts_failed";
    // `prepared`: the attempts were prepared, and the port of their rendezvous was taken
    std::uint32_t attempts = 0; bool prepared = false;
    std::vector<Reason> cause; bool operator==(const StartsFailed&) const = default;
};
struct NodesLost {  // several attempts in a row lost a node without progress between them
    static constexpr const char* kind = "nodes_lost";
    std::uint32_t attempts = 0; std::vector<Reason> cause; bool operator==(const NodesLost&) const = default;
};

// ---- why an attempt ended -----------------------------------------------------------------------------------------
struct RankFailed {
    static constexpr const char* kind = "rank_failed"; Rank rank; NodeId node; ExitCause exit; bool operator==(const RankFailed&) const = default;
};
struct RanksSucceeded { static constexpr const char* kind = "ranks_succeeded"; bool operator==(const RanksSucceeded&) const = default; };
struct NotPrepared {
    static constexpr const char* kind = "not_prepared";
    NodeId node; std::string why;  // text of the agent
    bool operator==(const NotPrepared&) const = default;
};
struct EndUnseen {  // the processes are gone, and no process observed their end
    static constexpr const char* kind = "end_unseen";
    NodeId node; std::vector<Rank> ranks; bool operator==(const EndUnseen&) const = default;
};
struct NodeLost {
    static constexpr const char* kind = "node_lost";
    NodeId node; std::string why;  // "no heartbeat for 10 s"
    std::vector<Reason> cause;  // effects of the loss on other nodes that were noticed before it
    bool operator==(const NodeLost&) const = default;
};
struct NodeLeft {
    static constexpr const char* kind = "node_left"; NodeId node; std::vector<Reason> cause;  // as in NodeLost
    bool operator==(const NodeLeft&) const = default;
};
struct NodeSmaller {  // the node returned with fewer resources
    static constexpr const char* kind = "node_smaller"; NodeId node; bool operator==(const NodeSmaller&) const = default;
};
struct StopMetric {
    static constexpr const char* kind = "stop_metric"; std::string key; double value = 0; bool operator==(const StopMetric&) const = default;
};
// the head gave up the attempt
struct GivenUp { static constexpr const char* kind = "given_up"; bool operator==(const GivenUp&) const = default; };
// the node returned without the attempt
struct NodeForgot { static constexpr const char* kind = "node_forgot"; bool operator==(const NodeForgot&) const = default; };

// ---- why a checkpoint is requested --------------------------------------------------------------------------------
struct RequestedBy {
    static constexpr const char* kind = "requested_by"; std::string user; bool operator==(const RequestedBy&) const = default;
};
struct PreemptedBy {
    static constexpr const char* kind = "preempted_by";
    std::string run; std::int32_t priority = 0; std::string queue; bool operator==(const PreemptedBy&) const = default;
};
struct NodeDrains {
    static constexpr const char* kind = "node_drains";
    NodeId node; std::vector<Reason> cause;  // the reason of the drain
    bool operator==(const NodeDrains&) const = default;
};
struct ResizeRequested {
    static constexpr const char* kind = "resize_requested";
    std::string user;  // empty: an earlier request for a size that is not carried out yet
    std::uint32_t workers = 0, instead_of = 0; bool operator==(const ResizeRequested&) const = default;
};
struct RoomToGrow {
    static constexpr const char* kind = "room_to_grow";
    std::uint32_t workers = 0, instead_of = 0; bool operator==(const RoomToGrow&) const = default;
};

// ---- why a node is out of use -------------------------------------------------------------------------------------
struct DrainedBy {
    static constexpr const char* kind = "drained_by";
    std::string user, text;  // `text`: a note for other people
    bool by_itself = false;  // the agent received the signal to end; holds until the node's next agent registers
    bool by_disk = false;    // the disk of the agent is nearly full; holds until there is room
    bool quarantined = false;  // its runs stay; a node in quarantine
    bool operator==(const DrainedBy&) const = default;
};
struct Silent {
    static constexpr const char* kind = "silent";
    std::string why;  // text of the component that noticed it
    bool operator==(const Silent&) const = default;
};
struct Evidence {  // one attempt that failed on the node first
    std::string run; std::uint32_t attempt = 0; bool went_on = false;  // `went_on`: the run continued without the node
    std::vector<Reason> cause; bool operator==(const Evidence&) const = default;
};
struct Quarantined {
    static constexpr const char* kind = "quarantined";
    std::uint32_t attempts = 0, runs = 0; Duration window;
    std::vector<Evidence> evidence;  // the last few failures
    bool operator==(const Quarantined&) const = default;
};

}  // namespace reasons
// clang-format on

}  // namespace rtrain
