// See reserved.hpp.
#include "scheduler/queue/reserved.hpp"

#include <algorithm>
#include <set>

#include "scheduler/model/limits.hpp"
#include "scheduler/placement/largest.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain::core {
namespace {

// Returns the reservations that this run's reservation must not delay: those of other runs with at least its priority.
ReservationMask respected_by(const ClusterIndex& index, const Run& run) {
    ReservationMask respected = 0;
    for (const auto& [id, entry] : index.reserved().entries())
        if (index.line_of(id).priority >= run.spec.priority) respected |= entry.bit;
    return respected;
}

}  // namespace

// Gangs with the same constraints on nodes can use the same nodes, so no node is examined for them.
bool same_kind(const ClusterIndex& index, std::uint32_t a, std::uint32_t b) {
    const GangRequest &first = index.shape(a).gang, &second = index.shape(b).gang;
    const auto needs_gpu = [](const GangRequest& gang) {
        return amount_of(gang.bundles.front().demand, gpu_key).ticks > 0;
    };
    const bool alike = first.nodes_only == second.nodes_only && first.topology_label == second.topology_label &&
                       first.bundles.front().selector == second.bundles.front().selector &&
                       needs_gpu(first) == needs_gpu(second);
    const auto shared = [&](const NodeView& node) { return could_use(node, first) && could_use(node, second); };
    const std::set<NodeId>& named = first.nodes_only.empty() ? second.nodes_only : first.nodes_only;
    if (alike || named.empty()) return alike || std::any_of(index.nodes().begin(), index.nodes().end(), shared);
    return std::any_of(named.begin(), named.end(), [&](const NodeId& id) {
        const NodeView* node = index.node(id);
        return node != nullptr && shared(*node);
    });
}

std::vector<std::string> lacking(const ClusterIndex& index, RunId reserving, const Sums& demand) {
    std::set<std::string> lacks;
    const auto entry = index.reserved().entries().find(reserving);
    if (entry == index.reserved().entries().end() || entry->second.seats.whole) return {};
    for (const auto& [id, held] : entry->second.seats.nodes) {
        const NodeView* node = index.node(id);
        if (node == nullptr) continue;
        for (const auto& [name, amount] : held.amounts)
            if (amount > amount_of(node->free, name)) lacks.insert(name);
        for (std::size_t device = 0; device < held.gpus.size(); ++device)
            if (device >= node->gpus_free.size() || held.gpus[device] > node->gpus_free[device])
                lacks.insert(std::string(gpu_key));
        if (lacks.size() == demand.size()) break;
    }
    return {lacks.begin(), lacks.end()};
}

bool worth_a_look(const Sums& given_back, const Sums& total) {
    return std::all_of(total.begin(), total.end(), [&](const auto& entry) {
        return entry.second.ticks <= amount_of(given_back, entry.first).ticks * limits::looks_for_a_part_of;
    });
}

bool will_be_free(const ClusterIndex& index, const Run& run, const NodeId& node) {
    const std::size_t at = index.place_of(node);
    const ReservationMask bit = index.reserved().bit_of(run.id);
    return bit != 0 && at < index.nodes().size() && index.nodes()[at].state == NodeState::ready &&
           covered(index.nodes()[at], index.holds_on(at), bit, respected_by(index, run));
}

bool will_be_free(const ClusterIndex& index, const Run& run) {
    return std::all_of(run.nodes_reserved.begin(), run.nodes_reserved.end(),
                       [&](const NodeId& node) { return will_be_free(index, run, node); });
}

bool begins_now(const Cluster& cluster, const Run& run, Time now) {
    const ClusterIndex& index = cluster.index;
    if (run.reserved_from != now || !will_be_free(index, run)) return false;
    const ReservationMask bit = index.reserved().bit_of(run.id);
    return std::all_of(run.nodes_reserved.begin(), run.nodes_reserved.end(), [&](const NodeId& node) {
        const auto& attempts = index.on_node(node);
        return std::all_of(attempts.begin(), attempts.end(), [&](AttemptId id) {
            if ((index.ends_before(id, index.place_of(node)) & bit) == 0) return true;
            const auto end = expected_end(cluster, cluster.attempts.at(id), now);
            return end && *end <= now;
        });
    });
}

bool free_without(const ClusterIndex& index, const Run& run, AttemptId id) {
    const ReservationMask bit = index.reserved().bit_of(run.id), others = respected_by(index, run);
    const auto& held = index.allocated_to(id);
    return std::all_of(held.begin(), held.end(), [&](const auto& entry) {
        const std::size_t at = index.place_of(entry.first);
        if (at == index.nodes().size() || (index.mask_of(at) & bit) == 0) return true;
        NodeHolds holds = index.holds_on(at);
        const ReservationMask counts = index.ends_before(id, at);
        holds.release(counts, entry.second.first, entry.second.second);
        holds.expect(counts & ~bit, entry.second.first, entry.second.second);
        return covered(index.nodes()[at], holds, bit, others);
    });
}

bool are_free(const ClusterIndex& index, const Run& run, const GangRequest& gang, ReservationMask closed) {
    const auto entry = index.reserved().entries().find(run.id);
    if (entry == index.reserved().entries().end() || run.seats_reserved.size() != gang.bundles.size()) return false;
    for (const auto& [id, held] : entry->second.seats.nodes) {
        const std::size_t at = index.place_of(id);
        if (at == index.nodes().size() || !placing::allowed(index.nodes()[at], gang)) return false;
        OpenRoom room = room_beside(index.nodes()[at], index.holds_on(at), index.mask_of(at) & closed);
        NodeView left = index.nodes()[at];
        left.free = std::move(room.free);
        left.gpus_free = std::move(room.gpus);
        const NodeHolds own{.seats = {{.bit = 1, .from = {}, .run = run.id, .seats = held}}, .released = {}};
        if (!covered(left, own, 1, 0)) return false;
    }
    for (std::size_t rank = 0; rank < run.seats_reserved.size(); ++rank)
        if (!matches(gang.bundles[rank].selector, index.node(run.seats_reserved[rank].node)->labels)) return false;
    return true;
}

}  // namespace rtrain::core
