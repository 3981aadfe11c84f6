// Computes how many nodes the waiting runs need: see autoscale.hpp. Places them on copies of the nodes.
#include <algorithm>
#include <iterator>
#include <utility>

#include "scheduler/autoscale/autoscale.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/placement/placement.hpp"
#include "scheduler/queue/order.hpp"

namespace rtrain {
namespace {

constexpr Duration hopeless_for{600'000};

bool kept_out_by_quota(const Run& run) {
    return run.reason.is<reasons::QuotaFull>() || run.reason.is<reasons::QuotaReclaimed>();
}

// Returns for each resource the least amount that every waiting bundle demands.
Resources least_demand(const std::vector<WaitingGang>& waiting) {
    std::optional<Resources> least;
    for (const WaitingGang& waiting_gang : waiting)
        for (const Bundle& bundle : waiting_gang.gang.bundles) {
            if (!least) least = bundle.demand;
            for (auto entry = least->begin(); entry != least->end();) {
                const auto demand = bundle.demand.find(entry->first);
                const bool without = demand == bundle.demand.end();
                if (!without) entry->second = std::min(entry->second, demand->second);
                entry = without ? least->erase(entry) : std::next(entry);
            }
        }
    return least.value_or(Resources());
}

// Returns false if none of the bundles fits on the node. If runs wait, most nodes are full.
bool has_room(const NodeView& node, const Resources& least) {
    return std::all_of(least.begin(), least.end(), [&](const auto& entry) {
        Amount free;
        if (entry.first == gpu_key)
            for (const Amount& device : node.gpus_free) free = free + device;
        else if (const auto known = node.free.find(entry.first); known != node.free.end())
            free = known->second;
        return free >= entry.second;
    });
}

// Returns, for each node, the free amount that the run's reservation withholds. It is withheld from a run that would
// still be running when the reservation begins.
std::map<NodeId, Held> withheld_by(const ClusterIndex& index, RunId run) {
    std::map<NodeId, Held> withheld;
    const auto entry = index.reserved().entries().find(run);
    if (entry == index.reserved().entries().end()) return withheld;
    for (const auto& [id, seats] : entry->second.seats.nodes) {
        const std::size_t at = index.place_of(id);
        if (at == index.nodes().size()) continue;
        const NodeView& node = index.nodes()[at];
        const OpenRoom left = room_beside(node, index.holds_on(at), entry->second.bit);
        Held& kept = withheld[id];
        for (const auto& [name, free] : node.free)
            if (const Amount more = free - amount_of(left.free, name); more.ticks > 0) kept.amounts.emplace(name, more);
        for (std::size_t device = 0; device < node.gpus_free.size(); ++device)
            kept.gpus.push_back(node.gpus_free[device] - left.gpus[device]);
    }
    return withheld;
}

void keep_back(std::vector<NodeView>& nodes, const std::map<NodeId, Held>& withheld) {
    for (NodeView& node : nodes) {
        const auto kept = withheld.find(node.id);
        if (kept == withheld.end()) continue;
        for (const auto& [name, amount] : kept->second.amounts)
            if (const auto free = node.free.find(name); free != node.free.end())
                free->second = free->second - std::min(free->second, amount);
        for (std::size_t device = 0; device < std::min(node.gpus_free.size(), kept->second.gpus.size()); ++device)
            node.gpus_free[device] =
                node.gpus_free[device] - std::min(node.gpus_free[device], kept->second.gpus[device]);
    }
}

NodeView new_node(const NodeOffer& offer, std::uint32_t number) {
    return {.id = NodeId{"~" + std::to_string(number)},  // the name sorts after every name that a real node can have
            .state = NodeState::ready,
            .labels = offer.labels,
            .total = offer.total,
            .free = offer.total,
            .gpus_free = std::vector<Amount>(offer.gpus, units(1))};
}

void add_new(std::vector<NodeView>& nodes, const NodeOffer& offer, std::uint32_t count, std::uint32_t& next_number) {
    for (std::uint32_t i = 0; i < count; ++i) nodes.push_back(new_node(offer, next_number++));
    std::sort(nodes.begin(), nodes.end(), [](const NodeView& a, const NodeView& b) { return a.id < b.id; });
}

void take_seats(std::vector<NodeView>& nodes, const GangRequest& gang, const Seats& seats, std::set<NodeId>& used) {
    for (std::size_t i = 0; i < seats.size(); ++i) {
        const auto node =
            std::find_if(nodes.begin(), nodes.end(), [&](const NodeView& view) { return view.id == seats[i].node; });
        if (node == nodes.end()) continue;
        Resources demand = gang.bundles[i].demand;
        if (zero(demand)) ++node->zero_bundles[gang.user];
        demand.erase(std::string(gpu_key));
        subtract(node->free, demand);
        for (const GpuShare& share : seats[i].gpus)
            node->gpus_free[share.device] = node->gpus_free[share.device] - share.amount;
        used.insert(node->id);
    }
}

// New nodes sort after all others and are removed again, so that the nodes of a large cluster are not copied each time.
bool fits_with(std::vector<NodeView>& nodes, const GangRequest& gang, const NodeOffer& offer, std::uint32_t count) {
    constexpr std::uint32_t first = 1'000'000'000;  // all numbers have equally many digits
    const std::size_t before = nodes.size();
    for (std::uint32_t i = 0; i < count; ++i) {
        nodes.push_back(new_node(offer, first + i));
        nodes.back().id.value.insert(0, "~");
    }
    const bool fits = place(nodes, gang).verdict == Verdict::feasible_now;
    nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(before), nodes.end());
    return fits;
}

// Returns the least number of new nodes, at most `room`, with which the gang fits; nullopt if no such number suffices.
std::optional<std::uint32_t> least_new(std::vector<NodeView>& nodes, const GangRequest& gang, const NodeOffer& offer,
                                       std::uint32_t room) {
    if (room == 0 || !fits_with(nodes, gang, offer, room)) return std::nullopt;
    std::uint32_t least = 1, enough = room;
    while (least < enough) {
        const std::uint32_t middle = least + (enough - least) / 2;
        fits_with(nodes, gang, offer, middle) ? enough = middle : least = middle + 1;
    }
    return enough;
}

}  // namespace

// The quota also counts the runs before: all waiting runs together must stay within it.
AutoscaleQuestion autoscale_question(const Cluster& cluster, const AutoscalePolicy& policy,
                                     const AutoscaleState& state) {
    ClusterIndex scratch;
    const ClusterIndex& index = in_step(cluster, scratch);
    AutoscaleQuestion question{.nodes = {},
                               .waiting = {},
                               .offer = policy.node,
                               .ordered = count_ordered(state),
                               .room = room_of(policy, state),
                               .max = policy.max};
    std::size_t bundles = 0;
    core::Quotas quotas(cluster);
    core::Order order(index, core::FairShare(cluster, index, cluster.meta.now), cluster.meta.now);
    while (const auto candidate = order.next()) {
        if (candidate->line->yields) break;  // yielding runs use only what is there
        const Run& run = cluster.runs.at(candidate->run);
        const Sums& total = index.shape(candidate->shape).total;
        const auto over = quotas.refuses(run.spec.queue, total, core::borrower(run, cluster.meta.now));
        if (state.hopeless.contains(run.id) || kept_out_by_quota(run) || over) {
            order.skip(*candidate);  // other runs of this shape and queue have no quota either
            continue;
        }
        quotas.count(run.spec.queue, total);
        quotas.count_user(run, total);
        WaitingGang waiting{.run = run.id, .gang = request_of(run), .withheld = withheld_by(index, run.id)};
        bundles += waiting.gang.bundles.size();
        if (question.waiting.size() >= limits::autoscaled_runs || bundles > limits::autoscaled_bundles) break;
        question.waiting.push_back(std::move(waiting));
    }
    if (question.waiting.empty()) return question;
    const Resources least = least_demand(question.waiting);
    // Reservations of runs outside of the question stay closed, because these runs get no node by this computation.
    ReservationMask open = 0;
    for (const WaitingGang& waiting : question.waiting) open |= index.reserved().bit_of(waiting.run);
    for (std::size_t at = 0; at < index.nodes().size(); ++at) {
        const NodeView& node = index.nodes()[at];
        if ((node.state != NodeState::ready && !node.awaited) || !has_room(node, least)) continue;
        NodeView& kept = question.nodes.emplace_back(node);
        kept.state = NodeState::ready;  // the node may register in a moment, so no machine is ordered to replace it
        const ReservationMask closed = index.mask_of(at) & ~open;
        if (closed == 0) continue;
        OpenRoom room = room_beside(node, index.holds_on(at), closed);
        kept.free = std::move(room.free);
        kept.gpus_free = std::move(room.gpus);
    }
    return question;
}

NodesNeeded nodes_needed(const AutoscaleQuestion& question) {
    std::vector<NodeView> nodes = question.nodes;
    std::uint32_t next_number = 0;
    add_new(nodes, question.offer, question.ordered, next_number);
    NodesNeeded needed;
    for (const WaitingGang& waits : question.waiting) {
        const auto& [run, gang, withheld] = waits;
        PlacementAnswer answer = place(nodes, gang);
        if (answer.verdict != Verdict::feasible_now) {
            const auto more = least_new(nodes, gang, question.offer, question.room - needed.nodes);
            if (!more && !fits_with(nodes, gang, question.offer, question.max)) needed.hopeless.insert(run);
            if (!more) keep_back(nodes, withheld);
            if (!more) continue;
            add_new(nodes, question.offer, *more, next_number);
            needed.nodes += *more;
            answer = place(nodes, gang);
        }
        take_seats(nodes, gang, answer.seats, needed.used);
    }
    std::erase_if(needed.used, [](const NodeId& id) { return id.value.starts_with('~'); });
    return needed;
}

void note_hopeless(AutoscaleState& state, const NodesNeeded& needed, Time now) {
    for (const RunId id : needed.hopeless) state.hopeless[id] = now + hopeless_for;
}

}  // namespace rtrain
