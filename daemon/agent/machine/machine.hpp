// The agent as a pure machine: the attempts on this node, from preparation to emptied, and the news kept for the head.
// No I/O, no clock, no chance. Invariants: news leave `outbox` only when acknowledged; an attempt leaves `attempts`
// only when no process of it is left; an order about an attempt that is unknown or over starts nothing.
//
//   prepare ─► PREPARING ─► PREPARED ─launch─► FETCHING ─► RUNNING ─(stop | a worker failed)─► ENDING ─► DRAINED
//   ─stop─► gone
#pragma once

#include "daemon/agent/machine/messages.hpp"
#include "daemon/agent/machine/report_group.hpp"
#include "scheduler/model/ids.hpp"

namespace rtrain::agent {

enum class Phase { preparing, prepared, fetching, running, ending, drained };

struct LocalWorker {
    std::int64_t pid = 0;
    bool started = false, exited = false, connected = false;
    bool joined = false;     // it has connected to this agent, which has the last report that it has passed
    bool signalled = false;  // this agent has signalled it to end the attempt
    std::string fail_text;   // the cause that the worker reported itself
    std::int64_t silent_ms = 0, cpu_ms = 0, data_wait_ms = -1, barrier_wait_ms = -1, checkpoint_wait_ms = -1;
    std::uint64_t barrier_waits = 0;
    // The largest waits that a heartbeat has contained. A wait is counted while it lasts, before the worker measures
    // it.
    std::int64_t barrier_sent_ms = -1, checkpoint_sent_ms = -1;
    std::optional<Time> heartbeat_at;      // the last heartbeat of its library
    std::int64_t interval_ms = 0;          // duration of its last step: from a release to its next report
    Time busy_at;                          // last time at which activity was seen
    std::optional<Time> kill_at;           // when to kill a worker that hangs, after a moment to write its stacks
    Time looked_at;                        // last check whether it hangs
    bool hung = false;                     // it was killed because it hung
    std::optional<Time> over_memory_from;  // time of the first of consecutive measurements above its limit
    bool over_memory = false;              // it was killed because of its memory
    std::optional<ExitCause> exit;
    bool operator==(const LocalWorker&) const = default;
};

struct LocalAttempt {
    SavedAttempt saved;
    Phase phase = Phase::preparing;
    bool coordinates = false;
    bool adopted = false;  // found after this agent's restart
    std::map<std::uint32_t, LocalWorker> workers;
    std::optional<LocalRanks> local;
    std::optional<Coordinator> coordinator;
    // Messages of the attempt's other nodes that arrived before the attempt began here, on rank 0's node: the last one
    // of each node and kind.
    std::vector<PeerMessage> early;
    std::map<std::string, Time> nodes_cut;  // disconnected nodes of the group, with the time
    bool stop_asked = false;                // the head waits for Emptied
    std::optional<Time> others_gone;        // since when every other node is empty or lost, by the head's message
    bool failed = false;                    // one of its workers failed
    bool scratch_full = false;              // a notice was sent that the node's scratch exceeds its quota
    bool isolated = false;                  // ended by this agent, which had no connection to the head for too long
    Time fetched_from;                      // start of the fetch of its checkpoint
    std::int64_t restore_ms = 0;            // duration of that fetch
    Time released_at;                       // time of the last released report
    std::string stop_why, end_as;           // the texts of the head
    std::int64_t started_wall_ms = 0;
    std::optional<Time> kill_at;       // when to send SIGKILL to the remaining workers
    std::optional<Time> uploads_from;  // since when only uploads are pending
    bool uploading_noticed = false;    // a notice about that was sent
    bool at_once = false;              // the end does not wait for uploads, as the user wants it now
    std::optional<worker::Wanted>
        asked;  // the pending checkpoint request of the head; sent to each rank, also to a later one
    bool logs_asked = false, logs_done = false;
    bool operator==(const LocalAttempt&) const = default;
};

// The node is being taken away. The head drains it. Remaining workers get SIGTERM, then SIGKILL.
struct Reclaim {
    std::string why;
    Time asked_at, stop_at, kill_at;
    bool ends = false;      // the agent ends when no attempt is left
    bool stopping = false;  // the workers left at stop_at got SIGTERM
    bool ended = false;
    bool operator==(const Reclaim&) const = default;
};

struct AgentState {
    std::string node, boot_id;
    protocol::Register inventory;         // the node's offer; `held` and `next_news` are set when it is sent
    std::int64_t wall_minus_now_ms = 0;   // the owner of the clocks sets it before each step
    std::int64_t stop_grace_ms = 10'000;  // for attempts that this agent ends by itself
    bool connected = false, registered = false;
    bool left = false;  // the node has left the cluster, and the head will send nothing more
    std::optional<Reclaim> reclaim;
    Time registered_at;
    std::optional<Time> alone_since;  // not registered since this time
    std::int64_t scratch_quota = 0;   // bytes of the node's scratch directory; 0: no quota
    std::int64_t heartbeat_ms = 1'000;
    Time heartbeat_at;
    std::uint64_t next_news = 1;
    struct Unacknowledged {
        protocol::News news;
        std::size_t bytes = 0;  // approximate size as a message
        bool operator==(const Unacknowledged&) const = default;
    };
    std::map<std::uint64_t, Unacknowledged> outbox;  // by number
    // News from this number on wait for `send_at` and for room; 0: none wait.
    std::uint64_t unsent_from = 0;
    Time send_at;
    std::size_t unacknowledged_bytes = 0;  // bytes of the news sent on this connection
    std::map<AttemptKey, LocalAttempt> attempts;
    Templates templates;  // templates of warm workers
    bool operator==(const AgentState&) const = default;
};

void keep_unacknowledged(AgentState& state, protocol::News news);  // also for news that an earlier agent stored on disk

Outputs step(AgentState& state, Time now, const Input& input);
std::optional<Time> next_wake(const AgentState& state);  // when TimerFired is due

}  // namespace rtrain::agent
