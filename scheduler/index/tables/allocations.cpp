#include "scheduler/index/tables/allocations.hpp"

#include "scheduler/model/derived.hpp"

namespace rtrain {

Allocation allocation_of(const Run& run, const Attempt& attempt) {
    Allocation allocation;
    allocation.queue = run.spec.queue;
    allocation.user = run.user;
    for (std::size_t rank = 0; rank < attempt.workers.size(); ++rank) {
        const Seat& seat = attempt.workers[rank].seat;
        auto& [sum, shares] = allocation.by_node[seat.node];
        const Resources& demand = demand_of(run, rank);
        add(sum, demand);
        if (zero(demand)) ++allocation.zero_bundles[seat.node];
        shares.insert(shares.end(), seat.gpus.begin(), seat.gpus.end());
    }
    return allocation;
}

void Allocations::add(AttemptId id, Allocation allocation) {
    for (const auto& [node, what] : allocation.by_node) rtrain::add(allocation.total, what.first);
    rtrain::add(in_use_[allocation.queue], allocation.total);
    UserHold& hold = user_holds_[{allocation.queue, allocation.user}];
    ++hold.runs;
    hold.gpus = hold.gpus + amount_of(allocation.total, gpu_key);
    live_.insert(id);
    attempts_.emplace(id, std::move(allocation));
}

void Allocations::remove(AttemptId id) {
    const auto entry = attempts_.find(id);
    const Allocation& allocation = entry->second;
    subtract(in_use_[allocation.queue], allocation.total);
    const auto hold = user_holds_.find({allocation.queue, allocation.user});
    hold->second.gpus = hold->second.gpus - amount_of(allocation.total, gpu_key);
    if (--hold->second.runs == 0) user_holds_.erase(hold);
    live_.erase(id);
    attempts_.erase(entry);
}

}  // namespace rtrain
