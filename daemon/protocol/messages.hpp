// The messages between head and agents on the WebSocket /v1/agents: one JSON object per text frame, with "type". The
// first messages are hello and welcome, then `register`. An agent numbers its news and keeps them on disk until the
// head acknowledges them. It may repeat news; the head ignores a number that it has received before. The head may
// repeat its orders (prepare, launch, stop, ...); an agent identifies an attempt by (run, incarnation). A receiver
// ignores unknown fields, so that the next version may add fields.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "daemon/protocol/attempt_ref.hpp"
#include "daemon/protocol/group.hpp"
#include "daemon/protocol/heartbeat.hpp"
#include "daemon/protocol/node_life.hpp"
#include "daemon/protocol/orders.hpp"
#include "scheduler/model/records.hpp"

namespace rtrain::protocol {

inline constexpr std::int32_t version = 1;
inline constexpr std::int32_t oldest_version = 1;

// clang-format off: fields that belong together stand on one line
// ---- agent to head ------------------------------------------------------------------------------------------------
struct Hello {
    std::int32_t protocol = version, min_protocol = oldest_version;
    std::string node{}, program_version{}, boot_id{};
    bool operator==(const Hello&) const = default;
};
struct Register {
    std::string address{};  // empty: the head uses the remote address of the connection
    std::uint16_t port = 0;
    Labels labels{};
    Resources total{};      // without GPUs
    std::uint32_t gpus = 0;
    std::string gpu_model{};
    std::vector<AttemptRef> held{};
    std::uint64_t next_news = 1;
    // Hostname, kernel, interpreter versions and so on, as `describe` shows them.
    std::map<std::string, std::string> facts{};
    std::optional<Leaving> leaving{};
    bool operator==(const Register&) const = default;
};

// News: `seq` counts from 1 per agent installation.
inline constexpr std::size_t earlier_most = 1'000;  // bound on the checkpoints of earlier runs in one Prepared
struct EarlierCheckpoint {  // a checkpoint that an earlier run with the same name committed
    std::string directory{}, metrics_json{};  // metrics: a few numbers, the score among them
    std::uint32_t attempt = 0, world_size = 0; std::uint64_t report = 0; std::int64_t bytes = 0, wall_ms = 0;
    bool counts = false;  // true if `num_to_keep` counts it
    bool operator==(const EarlierCheckpoint&) const = default;
};
struct Prepared {
    AttemptRef attempt{}; bool claimed = false; std::string from{}, master_address{};
    std::uint16_t master_port = 0;
    std::vector<EarlierCheckpoint> earlier{};  // oldest first, at most `earlier_most`
    bool operator==(const Prepared&) const = default;
};
struct PrepareFailed {
    AttemptRef attempt{}; std::string why{}; bool permanent = false;
    bool operator==(const PrepareFailed&) const = default;
};
struct Started {
    AttemptRef attempt{}; std::uint32_t rank = 0; std::int64_t pid = 0; std::string host{};
    std::int64_t restore_ms = 0;  // time that the node took to fetch the checkpoint from which it starts
    bool operator==(const Started&) const = default;
};
struct Exited {
    AttemptRef attempt{}; std::uint32_t rank = 0; ExitCause cause{}; std::int64_t exit_wall_us = 0;
    bool operator==(const Exited&) const = default;
};
struct Emptied {
    AttemptRef attempt{};
    bool operator==(const Emptied&) const = default;
};
struct Reported {  // the coordinator sends one per report of the attempt
    AttemptRef attempt{};
    std::uint64_t index = 0;  // counts from 1 within the attempt
    std::int64_t wall_ms = 0;
    std::map<std::uint32_t, std::string> metrics_json{};  // by rank
    // The directory that the checkpoint's files will become; empty: a report without a checkpoint.
    std::string checkpoint{};
    bool operator==(const Reported&) const = default;
};
struct Committed {
    AttemptRef attempt{};
    std::string directory{}, metrics_json{};
    std::uint64_t index = 0;
    std::uint32_t world_size = 0;
    std::int64_t bytes = 0, wall_ms = 0, blocked_us = 0, upload_ms = 0;
    // The RequestCheckpoint::asked that this checkpoint fulfils; 0: none; absent: sent by an older agent.
    std::optional<std::int64_t> answers{};
    bool operator==(const Committed&) const = default;
};
struct Deleted {
    std::uint64_t run = 0; std::string directory{};
    bool operator==(const Deleted&) const = default;
};
// reason: missing_ranks, storage_full and others of daemon/agent/machine/coordinator.cpp. With reason_of_starts the
// notice is no warning: its text names how the node started the workers, and why.
inline constexpr const char* reason_of_starts = "starts";
struct Notice {
    AttemptRef attempt{}; std::string text{}; std::string reason{};
    bool operator==(const Notice&) const = default;
};
struct News {
    std::uint64_t seq = 0;
    std::variant<Prepared, PrepareFailed, Started, Exited, Emptied, Reported, Committed, Deleted, Notice> what{};
    bool operator==(const News&) const = default;
};
struct NewsBatch {  // several news in their order, since reports without files are frequent
    std::vector<News> items{};
    bool operator==(const NewsBatch&) const = default;
};
struct LogChunk {  // Part of a log file. It has no number: `offset` gives its place in the file. LogAck acknowledges
                   // it.
    AttemptRef attempt{};
    std::uint32_t rank = 0;
    std::string stream{};  // "out", "err" or "setup"
    std::uint64_t offset = 0;
    std::string bytes{};   // base64 on the wire
    std::uint64_t lost = 0;  // number of bytes from `offset` on that the node no longer has; then `bytes` is empty
    bool last = false;   // the file is complete
    std::int64_t wall_ms = 0;  // time at which the node read the first line; 0: unknown
    bool operator==(const LogChunk&) const = default;
};

// The answer to Clear.
struct Cleared {
    std::uint64_t id = 0;
    bool removed = false;  // false without an error: the node found no files of this run
    std::string error{};
    bool operator==(const Cleared&) const = default;
};

// ---- head to agent ------------------------------------------------------------------------------------------------
struct Welcome {
    std::int32_t protocol = version;
    std::string cluster_id{};
    std::int64_t heartbeat_ms = 1'000, node_timeout_ms = 10'000;
    std::uint64_t news_seen = 0;  // the highest number that the head has stored durably
    bool operator==(const Welcome&) const = default;
};
// The head closes the connection after it.
struct Refuse {
    std::string message{}, next{};
    bool left = false;  // the node was removed from the cluster, so its workers belong to no run
    bool operator==(const Refuse&) const = default;
};
struct NewsAck {
    std::uint64_t seq = 0;
    bool operator==(const NewsAck&) const = default;
};
struct LogAck {  // With `later`, the head has dropped the bytes behind `offset`. The node keeps them until an
                 // acknowledgement without `later` arrives.
    AttemptRef attempt{}; std::uint32_t rank = 0; std::string stream{}; std::uint64_t offset = 0; bool later = false;
    bool operator==(const LogAck&) const = default;
};
// orders.hpp has the orders about attempts and runs.

// A node that takes part in an attempt on this node has a new address.
struct PeerMoved {
    std::string node{}, address{}; std::uint16_t port = 0;
    bool operator==(const PeerMoved&) const = default;
};

// The serial numbers of revoked certificates, those of nodes that were removed. The head sends all of them at each
// registration and at each change.
struct Revoked {
    std::vector<std::string> serials{};
    bool operator==(const Revoked&) const = default;
};

using FromAgent = std::variant<Hello, Register, Heartbeat, News, LogChunk, NewsBatch, Cleared, Leaving, PeerDialled>;
using FromHead = std::variant<Welcome, Refuse, NewsAck, LogAck, Prepare, Launch, Stop, Delete, Result_, Forget,
                              PeerMoved, RequestCheckpoint, Revoked, TakeStacks, Clear, DialPeer, RunEnded>;

std::string encode(const FromAgent&);
std::string encode(const FromHead&);
Result<FromAgent> decode_from_agent(const std::string&);
Result<FromHead> decode_from_head(const std::string&);
std::string encode_news(const News&);              // for the agent's outbox on disk
Result<News> decode_news(const std::string&);

}  // namespace rtrain::protocol
