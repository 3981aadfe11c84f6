// When running attempts are expected to end, and what that means for the run at the head of the queue: the nodes it can
// count on, and from when. Inside of the core only.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/index/cluster.hpp"

namespace rtrain::core {

// From limits.wall_time, or from the pace at which its checkpoints near `stop`; none: nobody knows.
std::optional<Time> expected_end(const Cluster& cluster, const Attempt& attempt, Time now);

struct Reservation {
    std::vector<NodeId> nodes;  // empty: it could not be held even when all that runs has ended
    Time from;                  // 0: nobody knows
    bool operator==(const Reservation&) const = default;
};
// Where and when the gang starts if nothing else does, on nodes of the mask: attempts end one after the
// other, those of unknown end last. With `sooner_than`: only if that is before it, else nothing.
Reservation reserve(const Cluster& cluster, ClusterIndex& index, std::uint32_t shape, Time now, ReservationMask open,
                    std::optional<Time> sooner_than = {});

}  // namespace rtrain::core
