#include "scheduler/model/derived.hpp"

#include <algorithm>

namespace rtrain {

bool is_awaited(const Node& node) { return node.awaited && node.state == NodeState::ready; }

NodeState state_for_placement(const Node& node) { return is_awaited(node) ? NodeState::draining : node.state; }

NodeState shown_state(const Node& node) { return is_awaited(node) ? NodeState::lost : node.state; }

std::uint32_t workers_max(const Run& run) {
    const auto bundles = static_cast<std::uint32_t>(run.spec.gang.bundles.size());
    return run.workers_asked > 0 ? std::min(run.workers_asked, bundles) : bundles;
}

std::uint32_t workers_min(const Run& run) {
    const std::uint32_t most = workers_max(run);
    return run.spec.elastic ? std::min(run.spec.elastic->workers_min, most) : most;
}

GangRequest gang_of(const RunSpec& spec, std::uint32_t workers) {
    GangRequest gang = spec.gang;
    if (workers < gang.bundles.size()) gang.bundles.resize(workers);
    return gang;
}

GangRequest gang_of(const Run& run, std::uint32_t workers) {
    GangRequest gang = gang_of(run.spec, workers);
    const auto holds_nothing = [](const Bundle& bundle) { return zero(bundle.demand); };
    if (std::any_of(gang.bundles.begin(), gang.bundles.end(), holds_nothing)) gang.user = run.user;
    return gang;
}

GangRequest request_of(const Run& run) {
    GangRequest request = gang_of(run, workers_min(run));
    request.nodes_avoided.insert(request.nodes_avoided.end(), run.nodes_avoided.begin(), run.nodes_avoided.end());
    return request;
}

const Resources& demand_of(const Run& run, std::size_t rank) {
    const auto& bundles = run.spec.gang.bundles;
    return bundles[std::min(rank, bundles.size() - 1)].demand;
}

Sums demand_of(const Run& run) {
    Sums total;
    const std::uint32_t workers = workers_min(run);
    for (std::uint32_t i = 0; i < workers; ++i) add(total, run.spec.gang.bundles[i].demand);
    return total;
}

std::string program_of(const Run& run) {
    return run.program.empty() ? "run-" + std::to_string(run.id.value) : run.program;
}

bool yields(const Run& run) { return run.yielding == Yielding::active; }
bool may_yield(const Run& run) { return run.yielding != Yielding::never; }

void drop_reservation(Run& run) {
    run.nodes_reserved.clear();
    run.reserved_from = {};
    run.seats_reserved.clear();
    run.reserved_after.clear();
}

namespace core {

bool is_blocked(const Run& run) { return !run.after.empty() || run.array_waits; }

std::optional<Time> wall_time_end(const Run& run) {
    if (!run.spec.wall_time_limit || run.started.ms == 0) return std::nullopt;
    return run.started + *run.spec.wall_time_limit + run.without_seats;
}

std::vector<NodeId> nodes_of(const Attempt& attempt) {
    std::vector<NodeId> nodes;
    for (const Worker& worker : attempt.workers) {
        if (!nodes.empty() && nodes.back() == worker.seat.node) continue;
        if (std::find(nodes.begin(), nodes.end(), worker.seat.node) == nodes.end()) nodes.push_back(worker.seat.node);
    }
    return nodes;
}

bool on_node(const Attempt& attempt, const NodeId& node) {
    return std::any_of(attempt.workers.begin(), attempt.workers.end(),
                       [&](const Worker& w) { return w.seat.node == node; });
}

bool claimed(const Attempt& attempt) { return !attempt.master_address.empty(); }

bool port_was_taken(const Attempt& attempt) {
    if (!attempt.first_failure) return false;
    const auto& exit = attempt.workers[attempt.first_failure->value].exit;
    return exit && exit->address_in_use;
}

bool request_pending(const Attempt& attempt) {
    return attempt.state == AttemptState::running && attempt.request.has_value();
}

}  // namespace core
}  // namespace rtrain
