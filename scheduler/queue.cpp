// Who is placed next. Order: priority, then age. Gangs are all-or-nothing, and a blocked run is not jumped for ever:
// a run behind it may start only on nodes that the blocked run could not use even if they were empty. Since nobody
// knows when a job ends, anything less strict can starve a big gang. A run that the present nodes could never hold
// blocks nobody.
#include <algorithm>

#include "scheduler/machine.hpp"
#include "scheduler/placement_room.hpp"

namespace rtrain {
namespace {

bool waiting(const Run& run) { return run.state == RunState::queued || run.state == RunState::recovering; }

bool before(const Run& a, const Run& b) {
    if (a.spec.priority != b.spec.priority) return a.spec.priority > b.spec.priority;
    if (a.submitted != b.submitted) return a.submitted < b.submitted;
    return a.id < b.id;
}

}  // namespace

std::vector<RunId> queue_order(const Cluster& cluster) {
    std::vector<const Run*> runs;
    for (const auto& [id, run] : cluster.runs)
        if (waiting(run)) runs.push_back(&run);
    std::sort(runs.begin(), runs.end(), [](const Run* a, const Run* b) { return before(*a, *b); });
    std::vector<RunId> order;
    order.reserve(runs.size());
    for (const Run* run : runs) order.push_back(run->id);
    return order;
}

namespace core {
namespace {

constexpr Duration backoff_keeps_place{10'000};  // a run that retries so soon keeps its place against those behind it

GangRequest request_of(const Run& run) {
    GangRequest request = run.spec.gang;
    request.nodes_avoided.insert(request.nodes_avoided.end(), run.nodes_avoided.begin(), run.nodes_avoided.end());
    return request;
}

void take_seats(std::vector<NodeView>& nodes, const GangRequest& gang, const Seats& seats) {
    std::map<NodeId, NodeView*> by_id;
    for (NodeView& node : nodes) by_id[node.id] = &node;
    for (std::size_t i = 0; i < seats.size(); ++i) {
        NodeView& node = *by_id.at(seats[i].node);
        for (const auto& [name, amount] : gang.bundles[i].demand)
            if (name != gpu_key && amount.ticks != 0) subtract(node.free, {{name, amount}});
        for (const GpuShare& share : seats[i].gpus)
            node.gpus_free[share.device] = node.gpus_free[share.device] - share.amount;
    }
}

// Whether any bundle of the gang could sit there if the node were empty.
bool could_use(const NodeView& node, const GangRequest& gang) {
    if (!placing::allowed(node, gang)) return false;
    const std::vector<Amount> whole(node.gpus_free.size(), units(1));
    const Bundle* last = nullptr;
    for (const Bundle& bundle : gang.bundles) {
        if (last != nullptr && *last == bundle) continue;
        last = &bundle;
        if (matches(bundle.selector, node.labels) && placing::slots(node.total, whole, bundle.demand, 1) > 0)
            return true;
    }
    return false;
}

std::string never_fits(const std::vector<NodeView>& nodes, const GangRequest& gang) {
    const PlacementAnswer answer = explain_placement(nodes, gang);
    std::string text = "NO PRESENT NODES COULD EVER HOLD IT, it waits for nodes to join: ";
    if (answer.reasons.empty()) text += "there is no node";
    for (std::size_t i = 0; i < answer.reasons.size() && i < 3; ++i)
        text += (i == 0 ? "" : "; ") + answer.reasons[i].node.value + ": " + answer.reasons[i].text;
    return text;
}

struct Pass {
    Change& change;
    std::vector<NodeView> all;   // every node, less what this pass gave away
    std::vector<NodeView> open;  // those that no blocked run waits for
    std::vector<RunId> refused;  // the last gangs that did not fit: a like one need not be tried

    bool like_a_refused(const Run& run) const {
        return std::any_of(refused.begin(), refused.end(), [&](RunId id) {
            const Run& other = change.seen().runs.at(id);
            return other.spec.gang == run.spec.gang && other.nodes_avoided == run.nodes_avoided;
        });
    }
    void give_reason(RunId id, const std::string& reason) {
        if (change.seen().runs.at(id).reason != reason) change.edit(id).reason = reason;
    }
    void block(const GangRequest& gang) {
        std::erase_if(open, [&](const NodeView& node) { return could_use(node, gang); });
    }
    void consider(RunId id);
};

void Pass::consider(RunId id) {
    const Run& run = change.seen().runs.at(id);
    const bool fresh = run.reason.empty();
    if (like_a_refused(run) && !fresh && !change.nodes_have_changed()) return;
    const GangRequest gang = request_of(run);
    if (run.retry_at > change.now()) {
        if (run.retry_at - change.now() <= backoff_keeps_place) block(gang);
        return;
    }
    const PlacementAnswer answer = place(open, gang);
    if (answer.verdict == Verdict::feasible_now) {
        take_seats(open, gang, answer.seats);
        if (all.size() != open.size()) take_seats(all, gang, answer.seats);
        return place_attempt(change, id, answer.seats);
    }
    const bool held_back = open.size() != all.size();
    const Verdict verdict = held_back ? place(all, gang).verdict : answer.verdict;
    refused.push_back(id);
    if (refused.size() > 8) refused.erase(refused.begin());
    if (verdict == Verdict::infeasible) {
        if (fresh || change.nodes_have_changed()) give_reason(id, never_fits(all, gang));
        return;
    }
    if (run.state == RunState::queued)
        give_reason(
            id, verdict == Verdict::feasible_now ? "waits behind a run that needs the same nodes" : "waits for room");
    block(gang);
}

}  // namespace

void place_waiting(Change& change) {
    const auto order = queue_order(change.seen());
    if (order.empty()) return;
    const auto nodes = node_views(change.seen());
    Pass pass{.change = change, .all = nodes, .open = nodes, .refused = {}};
    for (const RunId id : order) {
        // All nodes are spoken for; a new run still learns why it waits.
        if (pass.open.empty() && !pass.all.empty() && !change.seen().runs.at(id).reason.empty()) continue;
        pass.consider(id);
    }
}

}  // namespace core
}  // namespace rtrain
