// Messages about whether a node is alive and whether it leaves, sent beside those about its attempts.
#pragma once

#include <cstdint>
#include <string>

namespace rtrain::protocol {

// The agent received the signal to end, and requests a drain of its node: no new work, and a checkpoint of present
// work. Repeated at each registration until the agent has ended.
struct Leaving {
    std::string why{};
    std::int64_t left_ms = 0;  // time in which the runs on it may move by themselves
    bool operator==(const Leaving&) const = default;
};

// A node is silent: this order makes an agent check whether its port answers. The answer is PeerDialled, after
// `patience_ms` at the latest. There is no answer if this agent's machine cannot connect at all.
struct DialPeer {
    std::uint64_t id = 0;
    std::string node{}, address{};
    std::uint16_t port = 0;
    std::int64_t patience_ms = 0;
    bool operator==(const DialPeer&) const = default;
};
struct PeerDialled {
    std::uint64_t id = 0;
    bool answered = false;  // by a connection or a refusal
    bool operator==(const PeerDialled&) const = default;
};

}  // namespace rtrain::protocol
