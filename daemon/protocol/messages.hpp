// What head and agents say to each other over the WebSocket /v1/agents: one JSON object per text frame, with "type".
// hello/welcome first; then `register`. News are numbered by the agent, kept on its disk until acknowledged, and may be
// repeated: the head drops numbers it has seen. Orders (prepare, launch, stop, ...) may be repeated too: agents know
// attempts by (run, incarnation). Fields not listed are ignored, so that the next version may add some.
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
    std::string address{};  // empty: the head takes the connection's far end
    std::uint16_t port = 0;
    Labels labels{};
    Resources total{};      // without GPU
    std::uint32_t gpus = 0;
    std::string gpu_model{};
    std::vector<AttemptRef> held{};
    std::uint64_t next_news = 1;
    std::map<std::string, std::string> facts{};  // hostname, kernel, interpreter versions ...: shown by `describe`
    std::optional<Leaving> leaving{};
    bool operator==(const Register&) const = default;
};

// News: `seq` counts from 1 per agent installation.
inline constexpr std::size_t earlier_most = 1'000;  // checkpoints of earlier runs that one attempt's node tells of
struct EarlierCheckpoint {  // committed by an earlier run of the name
    std::string directory{}, metrics_json{};  // metrics: a few numbers, the score among them
    std::uint32_t attempt = 0, world_size = 0; std::uint64_t report = 0; std::int64_t bytes = 0, wall_ms = 0;
    bool counts = false;  // for `num_to_keep`
    bool operator==(const EarlierCheckpoint&) const = default;
};
struct Prepared {
    AttemptRef attempt{}; bool claimed = false; std::string from{}, master_address{};
    std::uint16_t master_port = 0;
    std::vector<EarlierCheckpoint> earlier{};  // the oldest first, at most `earlier_most`
    bool operator==(const Prepared&) const = default;
};
struct PrepareFailed {
    AttemptRef attempt{}; std::string why{}; bool permanent = false;
    bool operator==(const PrepareFailed&) const = default;
};
struct Started {
    AttemptRef attempt{}; std::uint32_t rank = 0; std::int64_t pid = 0; std::string host{};
    std::int64_t restore_ms = 0;  // that its node took to fetch the checkpoint it starts from
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
struct Reported {  // from the coordinator, one per report of the attempt
    AttemptRef attempt{};
    std::uint64_t index = 0;  // from 1 within the attempt
    std::int64_t wall_ms = 0;
    std::map<std::uint32_t, std::string> metrics_json{};  // by rank
    std::string checkpoint{};  // the directory that its files are to become; none: without
    bool operator==(const Reported&) const = default;
};
struct Committed {
    AttemptRef attempt{};
    std::string directory{}, metrics_json{};
    std::uint64_t index = 0;
    std::uint32_t world_size = 0;
    std::int64_t bytes = 0, wall_ms = 0, blocked_us = 0, upload_ms = 0;
    std::optional<std::int64_t> answers{};  // RequestCheckpoint::asked of what its report came after; 0: none; absent: an older agent
    bool operator==(const Committed&) const = default;
};
struct Deleted {
    std::uint64_t run = 0; std::string directory{};
    bool operator==(const Deleted&) const = default;
};
// reason: missing_ranks, storage_full and others of daemon/agent/machine/coordinator.cpp; reason_of_starts warns of
// nothing: the text is how a node started the workers of an attempt, and why so
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
struct NewsBatch {  // several at once, in their order: reports without files come often
    std::vector<News> items{};
    bool operator==(const NewsBatch&) const = default;
};
struct LogChunk {  // not numbered: `offset` says where it belongs; acknowledged by LogAck
    AttemptRef attempt{};
    std::uint32_t rank = 0;
    std::string stream{};  // "out" or "err", "setup"
    std::uint64_t offset = 0;
    std::string bytes{};   // on the wire: base64
    std::uint64_t lost = 0;  // so many bytes from `offset` on are not on the node any more; `bytes` is empty then
    bool last = false;   // the file is complete
    std::int64_t wall_ms = 0;  // when its first line was seen on the node; 0: not told
    bool operator==(const LogChunk&) const = default;
};

// The answer to Clear.
struct Cleared {
    std::uint64_t id = 0;
    bool removed = false;  // false without an error: nothing of this run is there as this node sees it
    std::string error{};
    bool operator==(const Cleared&) const = default;
};

// ---- head to agent ------------------------------------------------------------------------------------------------
struct Welcome {
    std::int32_t protocol = version;
    std::string cluster_id{};
    std::int64_t heartbeat_ms = 1'000, node_timeout_ms = 10'000;
    std::uint64_t news_seen = 0;  // the highest number the head has made durable
    bool operator==(const Welcome&) const = default;
};
// then the head closes
struct Refuse {
    std::string message{}, next{};
    bool left = false;  // the node was taken out of the cluster: what runs there belongs to nobody any more
    bool operator==(const Refuse&) const = default;
};
struct NewsAck {
    std::uint64_t seq = 0;
    bool operator==(const NewsAck&) const = default;
};
struct LogAck {  // `later`: what came behind `offset` was not taken; the node keeps it until it is told without
    AttemptRef attempt{}; std::uint32_t rank = 0; std::string stream{}; std::uint64_t offset = 0; bool later = false;
    bool operator==(const LogAck&) const = default;
};
// Orders about attempts and runs: orders.hpp.

// a node of some attempt of yours is reached elsewhere now
struct PeerMoved {
    std::string node{}, address{}; std::uint16_t port = 0;
    bool operator==(const PeerMoved&) const = default;
};

// Certificates that are none any more, by serial number: those of nodes that left. Sent at each registration, and when
// it grows; replaces what the agent knew.
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
