// See seats.hpp.
#include "tests/sim/seats.hpp"

#include <algorithm>

#include "scheduler/model/derived.hpp"

namespace rtrain::sim {
namespace {

// The amounts of one node that attempts still hold when a reservation begins.
struct Taken {
    Resources amounts;
    std::map<std::uint32_t, Amount> devices;

    void add_rank(const Run& run, std::size_t rank, const std::vector<GpuShare>& shares) {
        Resources demand = demand_of(run, rank);
        demand.erase(std::string(gpu_key));
        add(amounts, demand);
        for (const GpuShare& share : shares) devices[share.device] = devices[share.device] + share.amount;
    }
};

bool ends_before(const Cluster& cluster, const Attempt& attempt, const Run& waiting) {
    if (waiting.reserved_from.ms == 0)
        return std::find(waiting.reserved_after.begin(), waiting.reserved_after.end(), attempt.id) !=
               waiting.reserved_after.end();
    const auto end = core::known_end(cluster, attempt);
    return end && *end <= waiting.reserved_from;
}

Taken still_taken(const Cluster& cluster, const Run& waiting, const NodeId& node) {
    Taken taken;
    for (std::size_t rank = 0; rank < waiting.seats_reserved.size(); ++rank)
        if (const Seat& seat = waiting.seats_reserved[rank]; seat.node == node)
            taken.add_rank(waiting, rank, seat.gpus);
    for (const auto& [id, attempt] : cluster.attempts) {
        if (terminal(attempt.state) || ends_before(cluster, attempt, waiting)) continue;
        for (std::size_t rank = 0; rank < attempt.workers.size(); ++rank)
            if (const Seat& seat = attempt.workers[rank].seat; seat.node == node)
                taken.add_rank(cluster.runs.at(id.run), rank, seat.gpus);
    }
    return taken;
}

bool may_pass(const Cluster& cluster, const Run& run, const Attempt& attempt, const Run& waiting) {
    if (run.spec.priority > waiting.spec.priority) return true;
    const auto& limit = run.spec.wall_time_limit;
    if (waiting.reserved_from.ms != 0 && !limit) return false;
    if (waiting.reserved_from.ms != 0)  // A run that is tried again ends by its earlier limit.
        return core::wall_time_end(run).value_or(attempt.placed_at + *limit) <= waiting.reserved_from;
    for (const AttemptId id : waiting.reserved_after)
        if (const auto awaited = cluster.attempts.find(id);
            awaited != cluster.attempts.end() && !terminal(awaited->second.state) &&
            !core::known_end(cluster, awaited->second) && program_of(cluster.runs.at(id.run)) == program_of(run))
            return true;
    return false;
}

std::string wrong_with(const Cluster& cluster, const Attempt& attempt, const Run& waiting) {
    const Run& run = cluster.runs.at(attempt.id.run);
    const std::string who = run.name + " took of the seats that " + waiting.name + " has reserved: ";
    for (std::size_t rank = 0; rank < attempt.workers.size(); ++rank) {
        const Seat& seat = attempt.workers[rank].seat;
        const auto node = cluster.nodes.find(seat.node);
        const auto& nodes = waiting.nodes_reserved;
        if (node == cluster.nodes.end() || std::find(nodes.begin(), nodes.end(), seat.node) == nodes.end()) continue;
        Taken taken = still_taken(cluster, waiting, seat.node);
        for (const GpuShare& share : seat.gpus)
            if (taken.devices[share.device] > units(1))
                return who + "GPU " + std::to_string(share.device) + " of " + seat.node.value;
        for (const auto& [name, amount] : demand_of(run, rank))
            if (name != gpu_key && amount.ticks > 0 &&
                amount_of(taken.amounts, name) > amount_of(node->second.total, name))
                return who + name + " of " + seat.node.value;
    }
    return "";
}

}  // namespace

std::string SeatWatch::decided(const Decision& decision, const Cluster& after) {
    std::string wrong;
    for (const Record& record : decision.save) {
        const auto* attempt = std::get_if<Attempt>(&record);
        if (attempt == nullptr || !incarnations_.insert(attempt->incarnation).second) continue;
        if (attempt->state != AttemptState::placed || reserving_.contains(attempt->id.run)) continue;
        for (const auto& [id, before] : reserving_) {
            const auto waiting = after.runs.find(id);
            const bool same = waiting != after.runs.end() && waiting->second.seats_reserved == before.seats_reserved &&
                              waiting->second.reserved_from == before.reserved_from &&
                              waiting->second.reserved_after == before.reserved_after;
            if (!same || may_pass(after, after.runs.at(attempt->id.run), *attempt, before)) continue;
            if (wrong.empty()) wrong = wrong_with(after, *attempt, before);
        }
    }
    remember(after);
    return wrong;
}

void SeatWatch::remember(const Cluster& cluster) {
    reserving_.clear();
    for (const auto& [id, run] : cluster.runs)
        if (!run.seats_reserved.empty()) reserving_.emplace(id, run);
}

void SeatWatch::forgotten(const Cluster& disk) {
    incarnations_.clear();
    for (const auto& [id, attempt] : disk.attempts) incarnations_.insert(attempt.incarnation);
    remember(disk);
}

}  // namespace rtrain::sim
