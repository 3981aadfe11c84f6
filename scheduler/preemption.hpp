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
Sums held_by(const Cluster& cluster, const Attempt& attempt);

}  // namespace rtrain::core
