// See autoscale.hpp: counts ordered machines, finds idle nodes, and decides the next step.
#include "scheduler/autoscale/autoscale.hpp"

#include <algorithm>
#include <utility>

#include "scheduler/model/derived.hpp"

namespace rtrain {
namespace {

constexpr Duration pause_least{1'000};
constexpr Duration failed_pause_most{900'000};       // pause after a command that costs nothing
constexpr Duration given_up_pause_most{86'400'000};  // longer, because each machine that never joins costs money
constexpr Duration registers_within{60'000};  // time that ordered machines get to register after a restart of the head
constexpr std::uint32_t releases_most = 8;    // tries for a machine that never joined, if the command fails

// Returns the pause, which doubles with each failure in a row.
Duration pause(const AutoscalePolicy& policy, std::uint32_t failures, Duration most) {
    Duration length = std::max(policy.cooldown, pause_least);
    for (std::uint32_t i = 1; i < failures && length < most; ++i) length.ms *= 2;
    return std::max(std::min(length, most), policy.cooldown);
}

bool labelled(const Node& node) {
    const auto label = node.labels.find(autoscale_label);
    return label != node.labels.end() && label->second == "true";
}

bool has_joined(const Cluster& cluster, const NodeId& name) {
    const auto node = cluster.nodes.find(name);
    return node != cluster.nodes.end() && node->second.state != NodeState::lost;
}

// Returns true if a node has no work, other than yielding runs, and no waiting run has reserved it.
class Empty {
  public:
    explicit Empty(const Cluster& cluster) : cluster_(cluster), index_(in_step(cluster, scratch_)) {
        for (const RunId id : index_.reserving())
            for (const NodeId& node : cluster.runs.at(id).nodes_reserved) reserved_.insert(node);
    }
    bool operator()(const NodeId& node) const {
        const std::set<AttemptId>& attempts = index_.on_node(node);
        return !reserved_.contains(node) && std::all_of(attempts.begin(), attempts.end(), [&](const AttemptId& id) {
            return yields(cluster_.runs.at(id.run));
        });
    }

  private:
    const Cluster& cluster_;
    ClusterIndex scratch_;
    const ClusterIndex& index_;
    std::set<NodeId> reserved_;
};

// Orders "pod-10" after "pod-9", because sets of pods shrink from their end.
bool before(const std::string& a, const std::string& b) {
    const auto digits = [](const std::string& text) {
        const auto at = text.find_last_not_of("0123456789");
        return text.substr(at == text.npos ? 0 : at + 1);
    };
    const std::string end_a = digits(a), end_b = digits(b);
    const std::string stem_a = a.substr(0, a.size() - end_a.size()), stem_b = b.substr(0, b.size() - end_b.size());
    if (stem_a != stem_b || end_a.size() == end_b.size()) return a < b;
    return end_a.size() < end_b.size();
}

std::optional<NodeId> last_of(const std::vector<NodeId>& nodes) {
    const auto last = std::max_element(nodes.begin(), nodes.end(),
                                       [](const NodeId& a, const NodeId& b) { return before(a.value, b.value); });
    return last == nodes.end() ? std::nullopt : std::optional(*last);
}

// Removes nodes that have joined from the list of orders. An order with the node's name loses that name. For any other
// new node, the oldest order loses one node. `fresh`: labelled nodes that were absent at the last check. Returns true
// if a node was removed.
bool take_joined(const Cluster& cluster, AutoscaleState& state, std::set<NodeId> fresh) {
    bool any = false;
    for (Ordered& order : state.ordered)
        for (auto name = order.names.begin(); name != order.names.end();) {
            if (!has_joined(cluster, *name)) {
                ++name;
                continue;
            }
            fresh.erase(*name);
            name = order.names.erase(name);
            --order.nodes;
            any = true;
        }
    for (const auto& [late, entry] : state.unjoined) fresh.erase(late);
    auto others = static_cast<std::uint32_t>(fresh.size());
    for (Ordered& order : state.ordered) {
        const std::uint32_t came = std::min(others, order.nodes);
        order.nodes -= came;
        others -= came;
        any = any || came > 0;
        // Some nodes have joined under other names, so the remaining names are unknown.
        if (order.names.size() > order.nodes) order.names.clear();
    }
    return any;
}

// Returns the number of nodes that have not joined in time. Their machines are given back if their names are known.
std::uint32_t give_up(const Cluster& cluster, AutoscaleState& state, Time now) {
    std::uint32_t given_up = 0;
    for (Ordered& order : state.ordered) {
        if (order.until > now) continue;
        given_up += std::exchange(order.nodes, 0);
        for (const NodeId& name : std::exchange(order.names, {}))
            if (!cluster.nodes.contains(name)) state.unjoined[name] = {.after = now};
    }
    std::erase_if(state.ordered, [](const Ordered& order) { return order.nodes == 0; });
    return given_up;
}

// Returns a machine that never joined and that may be given back now; nullopt if there is none.
std::optional<NodeId> unjoined_of(const AutoscaleState& state, Time now) {
    std::vector<NodeId> due;
    for (const auto& [name, entry] : state.unjoined)
        if (entry.after <= now) due.push_back(name);
    return last_of(due);
}

}  // namespace

void restored(const AutoscalePolicy& policy, AutoscaleState& state, Time now) {
    const Time least = now + std::min(policy.timeout, registers_within), most = now + policy.timeout + policy.timeout;
    for (Ordered& order : state.ordered) order.until = std::clamp(order.until, least, most);
    const Time pause_over = now + pause(policy, state.failures, given_up_pause_most);
    state.order_after = std::min(state.order_after, pause_over);
    for (auto& [name, entry] : state.unjoined)
        entry.after =
            std::min(entry.after, now + std::max(policy.idle, pause(policy, entry.failures, given_up_pause_most)));
}

std::uint32_t count_ordered(const AutoscaleState& state) {
    std::uint32_t sum = 0;
    for (const Ordered& order : state.ordered) sum += order.nodes;
    return sum;
}

std::uint32_t room_of(const AutoscalePolicy& policy, const AutoscaleState& state) {
    const std::size_t taken = state.present.size() + count_ordered(state) + state.unjoined.size();
    return taken >= policy.max ? 0 : policy.max - static_cast<std::uint32_t>(taken);
}

std::uint32_t observe(const Cluster& cluster, const AutoscalePolicy& policy, AutoscaleState& state, Time now) {
    const Empty empty(cluster);
    std::set<NodeId> present;
    std::map<NodeId, Time> idle;
    std::set<NodeId> fresh;
    for (const auto& [id, node] : cluster.nodes) {
        if (!labelled(node)) continue;
        present.insert(id);
        if (!state.present.contains(id)) fresh.insert(id);
        const auto since = state.idle_since.find(id);
        if (empty(id)) idle[id] = since == state.idle_since.end() ? now : since->second;
    }
    state.present = std::move(present);
    state.idle_since = std::move(idle);
    const bool any_joined = take_joined(cluster, state, std::move(fresh));
    std::erase_if(state.unjoined, [&](const auto& entry) { return cluster.nodes.contains(entry.first); });
    const std::uint32_t given_up = give_up(cluster, state, now);
    if (any_joined && given_up == 0 && state.ordered.empty()) state.failures = 0;  // all ordered nodes have joined
    std::erase_if(state.hopeless, [&](const auto& entry) { return entry.second <= now; });
    if (given_up > 0)
        state.order_after = std::max(state.order_after, now + pause(policy, ++state.failures, given_up_pause_most));
    return given_up;
}

AutoscaleStep autoscale_step(const Cluster& cluster, const AutoscalePolicy& policy, const AutoscaleState& state,
                             const NodesNeeded& needed, Time now) {
    const Empty empty(cluster);
    AutoscaleStep step;
    std::vector<NodeId> idle, drained;
    for (const NodeId& id : state.present) {
        const auto entry = cluster.nodes.find(id);
        if (entry == cluster.nodes.end()) continue;
        const Node& node = entry->second;
        if (drained_by_autoscaler(node)) {
            const bool back = !empty(id) || (needed.nodes > 0 && node.state != NodeState::lost);
            back ? step.undrain.push_back(id) : drained.push_back(id);
            continue;
        }
        const bool in_use = node.state == NodeState::ready || node.state == NodeState::lost;
        const auto since = state.idle_since.find(id);
        if (in_use && since != state.idle_since.end() && now - since->second >= policy.idle && empty(id) &&
            !needed.used.contains(id))
            idle.push_back(id);
    }
    if (!step.undrain.empty()) return step;  // The undrained nodes may be all that is needed.
    if (now >= state.order_after) step.order = std::min(needed.nodes, room_of(policy, state));
    if (now < state.release_after) return step;
    step.release = drained.empty() ? unjoined_of(state, now) : last_of(drained);
    if (needed.nodes == 0 && drained.empty()) step.drain = last_of(idle);
    return step;
}

bool drained_by_autoscaler(const Node& node) {
    const auto* drained = std::get_if<reasons::DrainedBy>(&node.state_reason.value());
    return drained != nullptr && drained->user == autoscale_user &&
           (node.state == NodeState::draining || node.back_as == NodeState::draining);
}

bool may_release(const Cluster& cluster, const AutoscaleState& state, const NodeId& node) {
    const auto entry = cluster.nodes.find(node);
    if (entry == cluster.nodes.end()) return state.unjoined.contains(node);
    ClusterIndex scratch;
    const bool has_attempt = !in_step(cluster, scratch).on_node(node).empty();  // a yielding run may still be ending
    return labelled(entry->second) && drained_by_autoscaler(entry->second) && !has_attempt && Empty(cluster)(node);
}

void order_begins(const AutoscalePolicy& policy, AutoscaleState& state, std::uint32_t nodes, Time now) {
    state.ordered.push_back(
        // the command has one timeout to end, and the nodes have another one to join
        {.nodes = nodes, .until = now + policy.timeout + policy.timeout});
}

void order_ended(const AutoscalePolicy& policy, AutoscaleState& state, CommandResult result,
                 const std::set<NodeId>& names, Time now) {
    const bool done = result == CommandResult::done;
    if (!done) ++state.failures;
    state.order_after = now + (done ? policy.cooldown : pause(policy, state.failures, failed_pause_most));
    if (state.ordered.empty()) return;
    const bool may_come = done || result == CommandResult::ended || !names.empty();
    if (!may_come) return state.ordered.pop_back();
    Ordered& order = state.ordered.back();
    const auto named = static_cast<std::uint32_t>(names.size());
    if (result == CommandResult::ended)
        order.nodes = std::max(order.nodes, named);  // The command may not have named all of its machines.
    else if (named > 0)
        order.nodes = named;
    order.names = names;
    order.until = now + policy.timeout;
}

void release_ended(const AutoscalePolicy& policy, AutoscaleState& state, const NodeId& node, CommandResult result,
                   Time now) {
    const auto unjoined = state.unjoined.find(node);
    if (result == CommandResult::done) {
        if (unjoined != state.unjoined.end()) state.unjoined.erase(unjoined);
        return;
    }
    state.release_after = now + policy.cooldown;
    if (unjoined == state.unjoined.end()) {
        if (result == CommandResult::not_now) state.idle_since[node] = now;
    } else if (result == CommandResult::not_now) {
        unjoined->second.after = now + policy.idle;
    } else if (++unjoined->second.failures >= releases_most) {
        state.unjoined.erase(unjoined);
    } else {
        unjoined->second.after = now + pause(policy, unjoined->second.failures, given_up_pause_most);
    }
}

}  // namespace rtrain
