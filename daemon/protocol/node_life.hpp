// Whether a node lives, and whether it leaves: said beside what runs on it.
#pragma once

#include <cstdint>
#include <string>

namespace rtrain::protocol {

// The agent was told to end, and wants its node drained: no new work, a checkpoint of what runs there. Repeated at each
// registration until it has ended.
struct Leaving {
    std::string why{};
    std::int64_t left_ms = 0;  // for the runs on it to leave by themselves
    bool operator==(const Leaving&) const = default;
};

// A node is silent: does anything answer at its agent's port? Answered by PeerDialled, after `patience_ms` at the
// latest; not at all where this agent's machine has no way to ask.
struct DialPeer {
    std::uint64_t id = 0;
    std::string node{}, address{};
    std::uint16_t port = 0;
    std::int64_t patience_ms = 0;
    bool operator==(const DialPeer&) const = default;
};
struct PeerDialled {
    std::uint64_t id = 0;
    bool answered = false;  // by a connection, or by its refusal
    bool operator==(const PeerDialled&) const = default;
};

}  // namespace rtrain::protocol
