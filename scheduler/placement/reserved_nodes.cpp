// See reserved_nodes.hpp.
#include "scheduler/placement/reserved_nodes.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

namespace rtrain {

ReservedNodes::Moved ReservedNodes::reserve(RunId run, const std::vector<NodeId>& nodes) {
    ReservationMask taken = 0;
    for (const auto& [other, reservation] : reservations_) taken |= reservation.bit;
    RTRAIN_CHECK(taken != every_reservation, "more reservations than bits of a mask");
    Reserved& reservation = reservations_[run];
    if (reservation.bit == 0) reservation.bit = ReservationMask{1} << std::countr_one(taken);
    Moved moved{.bit = reservation.bit, .gone = {}, .come = {}};
    if (reservation.nodes == nodes) return moved;
    const std::vector<NodeId>& before = reservation.nodes;
    std::set_difference(before.begin(), before.end(), nodes.begin(), nodes.end(), std::back_inserter(moved.gone));
    std::set_difference(nodes.begin(), nodes.end(), before.begin(), before.end(), std::back_inserter(moved.come));
    reservation.nodes = nodes;
    if (nodes.empty()) reservations_.erase(run);
    return moved;
}

ReservationMask ReservedNodes::bit_of(RunId run) const {
    const auto entry = reservations_.find(run);
    return entry == reservations_.end() ? 0 : entry->second.bit;
}

ReservationMask ReservedNodes::mask_of(const NodeId& node) const {
    ReservationMask mask = 0;
    for (const auto& [run, reservation] : reservations_)
        if (std::binary_search(reservation.nodes.begin(), reservation.nodes.end(), node)) mask |= reservation.bit;
    return mask;
}

std::map<RunId, std::vector<NodeId>> ReservedNodes::nodes() const {
    std::map<RunId, std::vector<NodeId>> nodes;
    for (const auto& [run, reservation] : reservations_) nodes.emplace(run, reservation.nodes);
    return nodes;
}

}  // namespace rtrain
