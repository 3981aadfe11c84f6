// See outlook.hpp.
#include "scheduler/index/outlook.hpp"

#include "scheduler/model/derived.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain::core {

Outlook::Outlook(const Cluster& cluster, ReservationMask open)
    : cluster_(&cluster), open_(open), nodes_(cluster.index.nodes()) {
    if (cluster.index.reserved().empty()) return;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
        if ((cluster.index.mask_of(i) & ~open) != 0) holds_.emplace(i, cluster.index.holds_on(i));
}

void Outlook::give_back(const Attempt& part) {
    const ClusterIndex& index = cluster_->index;
    const Run& run = cluster_->runs.at(part.id.run);
    for (std::size_t rank = 0; rank < part.workers.size(); ++rank) {
        const Seat& seat = part.workers[rank].seat;
        const std::size_t at = seat.node.value.empty() ? nodes_.size() : index.place_of(seat.node);
        if (at >= nodes_.size()) continue;
        const Resources& demand = demand_of(run, rank);
        if (zero(demand)) placing::end_zero_bundle(nodes_[at], run.user);
        for (const auto& [name, amount] : demand)
            if (name != gpu_key && amount.ticks != 0) add(nodes_[at].free, {{name, amount}});
        for (const GpuShare& share : seat.gpus)
            if (share.device < nodes_[at].gpus_free.size())
                nodes_[at].gpus_free[share.device] = nodes_[at].gpus_free[share.device] + share.amount;
        const auto holds = holds_.find(at);
        if (holds == holds_.end()) continue;
        holds->second.release(index.ends_before(part.id, at), demand, seat.gpus);
    }
}

std::vector<NodeView> Outlook::nodes() && {
    for (const auto& [at, holds] : holds_) {
        OpenRoom room = room_beside(nodes_[at], holds, cluster_->index.mask_of(at) & ~open_);
        nodes_[at].free = std::move(room.free);
        nodes_[at].gpus_free = std::move(room.gpus);
    }
    return std::move(nodes_);
}

}  // namespace rtrain::core
