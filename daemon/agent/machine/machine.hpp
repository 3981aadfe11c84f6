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
    bool joined = false;     // it has been connected to this agent, which knows the last report that it has passed
    bool signalled = false;  // by us, to end the attempt
    std::string fail_text;   // the cause it gave itself
    std::int64_t silent_ms = 0, cpu_ms = 0, data_wait_ms = -1, barrier_wait_ms = -1, checkpoint_wait_ms = -1;
    std::uint64_t barrier_waits = 0;
    // The greatest waits that a heartbeat has contained. A wait that lasts is counted before the worker measures it.
    std::int64_t barrier_sent_ms = -1, checkpoint_sent_ms = -1;
    std::optional<Time> heartbeat_at;  // the last sign of life of its library
    std::int64_t interval_ms = 0;      // its last step: from a release to its coming with the next report
    Time busy_at;                      // it was last seen to do something
    std::optional<Time> kill_at;       // it hangs: its stacks were asked for, and it is given a moment to write them
    Time looked_at;                    // whether it hangs
    bool hung = false;                 // and was killed for it
    std::optional<Time> over_memory_from;  // the first of the last measurements in a row that were above its limit
    bool over_memory = false;              // and was killed for it
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
    // Messages of the attempt's other nodes that came before this one, rank 0's, had begun: the last of each node and
    // kind.
    std::vector<PeerMessage> early;
    std::map<std::string, Time> nodes_cut;  // of the group: their connection is, since then
    bool stop_asked = false;                // the head waits for Emptied
    std::optional<Time> others_gone;        // the head says that every other node is empty, or lost
    bool failed = false;                    // a worker of it failed
    bool scratch_full = false;              // said that the node's scratch is beyond its quota
    bool isolated = false;                  // ended by this agent, which had not heard of the head for too long
    Time fetched_from;                      // its checkpoint was asked for
    std::int64_t restore_ms = 0;            // until it was here
    Time released_at;                       // the last report passed
    std::string stop_why, end_as;           // the head's words
    std::int64_t started_wall_ms = 0;
    std::optional<Time> kill_at;       // SIGKILL for those that are left
    std::optional<Time> uploads_from;  // only files are waited for
    bool uploading_noticed = false;    // that they are
    bool at_once = false;              // they are not: its user wants it gone
    std::optional<worker::Wanted>
        asked;  // the head wants a checkpoint; said to each rank, also to one that comes later
    bool logs_asked = false, logs_done = false;
    bool operator==(const LocalAttempt&) const = default;
};

// The node is taken away: the head drains it, and what still runs here is told to end, killed, left behind by nobody.
struct Reclaim {
    std::string why;
    Time asked_at, stop_at, kill_at;
    bool ends = false;      // this agent, once nothing is left
    bool stopping = false;  // what was left at stop_at was told to end
    bool ended = false;
    bool operator==(const Reclaim&) const = default;
};

struct AgentState {
    std::string node, boot_id;
    protocol::Register inventory;         // what this node offers; `held` and `next_news` are filled in when sent
    std::int64_t wall_minus_now_ms = 0;   // set before each step by who owns the clocks
    std::int64_t stop_grace_ms = 10'000;  // for attempts that this agent ends by itself
    bool connected = false, registered = false;
    bool left = false;  // the cluster: its head will not be heard again
    std::optional<Reclaim> reclaim;
    Time registered_at;
    std::optional<Time> alone_since;  // not registered since
    std::int64_t scratch_quota = 0;   // bytes of the node's scratch directory; 0: none
    std::int64_t heartbeat_ms = 1'000;
    Time heartbeat_at;
    std::uint64_t next_news = 1;
    struct Unacknowledged {
        protocol::News news;
        std::size_t bytes = 0;  // as a message, about
        bool operator==(const Unacknowledged&) const = default;
    };
    std::map<std::uint64_t, Unacknowledged> outbox;  // by number
    std::uint64_t unsent_from = 0;                   // news from here on wait for `send_at`, and for room; 0: none
    Time send_at;
    std::size_t unacknowledged_bytes = 0;  // of news that were sent on this connection
    std::map<AttemptKey, LocalAttempt> attempts;
    Templates templates;  // of warm workers
    bool operator==(const AgentState&) const = default;
};

void keep_unacknowledged(AgentState& state, protocol::News news);  // also what an agent before this one kept on disk

Outputs step(AgentState& state, Time now, const Input& input);
std::optional<Time> next_wake(const AgentState& state);  // when TimerFired is due

}  // namespace rtrain::agent
