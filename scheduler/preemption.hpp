// Who gives way to whom. Inside of the core only.
#pragma once

#include <optional>

#include "scheduler/kept_nodes.hpp"
#include "scheduler/shares.hpp"

namespace rtrain::core {

class Change;

// Asks others to give way until the waiting run fits on nodes behind open doors, if together they can make it fit and
// it may take from them. Nothing: it will not fit. Else they have gone by that time: asked now, or before.
struct RoomToCome {
    bool asked_now = false;
    Time by;
};
std::optional<RoomToCome> make_room(Change& change, const Quotas& quotas, RunId waiting, Doors open = every_door);
// A run that waits, may have what this one was asked to leave, and lacks it. Each look at the nodes is counted off;
// without any left the first that may have it does.
std::optional<RunId> still_wanted_by(Change& change, const Attempt& attempt, std::size_t& looks);
std::string gives_way_to(const Run& taker);
std::size_t asks_looked_at(const Cluster& cluster);  // so many looks for one event
Sums held_by(const Cluster& cluster, const Attempt& attempt);

}  // namespace rtrain::core
