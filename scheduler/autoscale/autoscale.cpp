// See autoscale.hpp.
#include "scheduler/autoscale/autoscale.hpp"

#include <algorithm>
#include <utility>

#include "scheduler/model/derived.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/placement/placement.hpp"
#include "scheduler/queue/order.hpp"

namespace rtrain {
namespace {

constexpr Duration hopeless_for{600'000};
constexpr Duration pause_least{1'000};
constexpr Duration failed_pause_most{900'000};       // the command is free of charge
constexpr Duration given_up_pause_most{86'400'000};  // each machine that never joins costs money

// Doubled with each failure in a row.
Duration pause(const AutoscalePolicy& policy, std::uint32_t failures, Duration most) {
    Duration length = std::max(policy.cooldown, pause_least);
    for (std::uint32_t i = 1; i < failures && length < most; ++i) length.ms *= 2;
    return std::max(std::min(length, most), policy.cooldown);
}

bool labelled(const Node& node) {
    const auto label = node.labels.find(autoscale_label);
    return label != node.labels.end() && label->second == "true";
}

std::uint32_t count_ordered(const AutoscaleState& state) {
    std::uint32_t sum = 0;
    for (const Ordered& order : state.ordered) sum += order.nodes;
    return sum;
}

std::uint32_t room_of(const AutoscalePolicy& policy, const AutoscaleState& state) {
    const std::size_t taken = state.present.size() + count_ordered(state);
    return taken >= policy.max ? 0 : policy.max - static_cast<std::uint32_t>(taken);
}

// Whether a node has no work, and no waiting run has reserved it.
class Empty {
  public:
    explicit Empty(const Cluster& cluster) : index_(in_step(cluster, made_)) {
        for (const RunId id : index_.reserving())
            for (const NodeId& node : cluster.runs.at(id).nodes_reserved) reserved_.insert(node);
    }
    bool operator()(const NodeId& node) const { return index_.on_node(node).empty() && !reserved_.contains(node); }

  private:
    ClusterIndex made_;
    const ClusterIndex& index_;
    std::set<NodeId> reserved_;
};

bool kept_out_by_quota(const Run& run) {
    return run.reason.is<reasons::QuotaFull>() || run.reason.is<reasons::QuotaReclaimed>();
}

NodeView new_node(const NodeOffer& offer, std::uint32_t number) {
    return {.id = NodeId{"~" + std::to_string(number)},  // behind every name that a node can have
            .state = NodeState::ready,
            .labels = offer.labels,
            .total = offer.total,
            .free = offer.total,
            .gpus_free = std::vector<Amount>(offer.gpus, units(1))};
}

void add_new(std::vector<NodeView>& nodes, const NodeOffer& offer, std::uint32_t count, std::uint32_t& made) {
    for (std::uint32_t i = 0; i < count; ++i) nodes.push_back(new_node(offer, made++));
    std::sort(nodes.begin(), nodes.end(), [](const NodeView& a, const NodeView& b) { return a.id < b.id; });
}

void take_seats(std::vector<NodeView>& nodes, const GangRequest& gang, const Seats& seats, std::set<NodeId>& used) {
    for (std::size_t i = 0; i < seats.size(); ++i) {
        const auto node =
            std::find_if(nodes.begin(), nodes.end(), [&](const NodeView& one) { return one.id == seats[i].node; });
        if (node == nodes.end()) continue;
        Resources demand = gang.bundles[i].demand;
        demand.erase(std::string(gpu_key));
        subtract(node->free, demand);
        for (const GpuShare& share : seats[i].gpus)
            node->gpus_free[share.device] = node->gpus_free[share.device] - share.amount;
        used.insert(node->id);
    }
}

// New ones stand behind all others by name, and go again: the nodes of a large cluster are not copied each time.
bool fits_with(std::vector<NodeView>& nodes, const GangRequest& gang, const NodeOffer& offer, std::uint32_t count) {
    constexpr std::uint32_t first = 1'000'000'000;  // as many digits for all
    const std::size_t before = nodes.size();
    for (std::uint32_t i = 0; i < count; ++i) {
        nodes.push_back(new_node(offer, first + i));
        nodes.back().id.value.insert(0, "~");
    }
    const bool fits = place(nodes, gang).verdict == Verdict::feasible_now;
    nodes.erase(nodes.begin() + static_cast<std::ptrdiff_t>(before), nodes.end());
    return fits;
}

// The least number of new nodes, at most `room`, with which the gang has room; none: no such number of them helps.
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

// "pod-10" comes behind "pod-9": sets of pods are made smaller from their end.
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

}  // namespace

std::uint32_t observe(const Cluster& cluster, const AutoscalePolicy& policy, AutoscaleState& state, Time now) {
    const Empty empty(cluster);
    std::set<NodeId> present;
    std::map<NodeId, Time> idle;
    std::uint32_t joined = 0;
    for (const auto& [id, node] : cluster.nodes) {
        if (!labelled(node)) continue;
        present.insert(id);
        joined += state.present.contains(id) ? 0 : 1;
        const auto since = state.idle_since.find(id);
        if (empty(id)) idle[id] = since == state.idle_since.end() ? now : since->second;
    }
    state.present = std::move(present);
    state.idle_since = std::move(idle);
    std::uint32_t given_up = 0;
    const bool any_joined = joined > 0 && !state.ordered.empty();
    for (Ordered& order : state.ordered) {
        const std::uint32_t came = std::min(joined, order.nodes);
        order.nodes -= came;
        joined -= came;
        if (order.until <= now) given_up += std::exchange(order.nodes, 0);
    }
    std::erase_if(state.ordered, [](const Ordered& order) { return order.nodes == 0; });
    if (any_joined && given_up == 0 && state.ordered.empty()) state.failures = 0;  // all of them came
    std::erase_if(state.hopeless, [&](const auto& entry) { return entry.second <= now; });
    if (given_up > 0)
        state.order_after = std::max(state.order_after, now + pause(policy, ++state.failures, given_up_pause_most));
    return given_up;
}

// A quota counts those before: what all that wait would use together, were there room, stays within it.
AutoscaleQuestion autoscale_question(const Cluster& cluster, const AutoscalePolicy& policy,
                                     const AutoscaleState& state) {
    ClusterIndex made;
    const ClusterIndex& index = in_step(cluster, made);
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
        const Run& run = cluster.runs.at(candidate->run);
        const Sums& total = index.shape(candidate->shape).total;
        if (state.hopeless.contains(run.id) || kept_out_by_quota(run) ||
            quotas.refuses(run.spec.queue, total, core::borrower(run, cluster.meta.now))) {
            order.skip(*candidate);  // nor can the others of this shape and queue
            continue;
        }
        quotas.count(run.spec.queue, total);
        WaitingGang waiting{.run = run.id, .gang = request_of(run)};
        bundles += waiting.gang.bundles.size();
        if (question.waiting.size() >= limits::autoscaled_runs || bundles > limits::autoscaled_bundles) break;
        question.waiting.push_back(std::move(waiting));
    }
    if (question.waiting.empty()) return question;
    for (const NodeView& node : index.nodes())
        if (node.state == NodeState::ready) question.nodes.push_back(node);
    return question;
}

NodesNeeded nodes_needed(const AutoscaleQuestion& question) {
    std::vector<NodeView> nodes = question.nodes;
    std::uint32_t made = 0;
    add_new(nodes, question.offer, question.ordered, made);
    NodesNeeded needed;
    for (const auto& [run, gang] : question.waiting) {
        PlacementAnswer answer = place(nodes, gang);
        if (answer.verdict != Verdict::feasible_now) {
            const auto more = least_new(nodes, gang, question.offer, question.room - needed.nodes);
            if (!more && !fits_with(nodes, gang, question.offer, question.max)) needed.hopeless.insert(run);
            if (!more) continue;
            add_new(nodes, question.offer, *more, made);
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
    if (!step.undrain.empty()) return step;  // these may be all that is needed
    if (now >= state.order_after) step.order = std::min(needed.nodes, room_of(policy, state));
    if (now < state.release_after) return step;
    step.release = last_of(drained);
    if (needed.nodes == 0 && drained.empty()) step.drain = last_of(idle);
    return step;
}

bool drained_by_autoscaler(const Node& node) {
    const auto* drained = std::get_if<reasons::DrainedBy>(&node.state_reason.value());
    return drained != nullptr && drained->user == autoscale_user &&
           (node.state == NodeState::draining || node.back_as == NodeState::draining);
}

bool may_release(const Cluster& cluster, const NodeId& node) {
    const auto entry = cluster.nodes.find(node);
    return entry != cluster.nodes.end() && labelled(entry->second) && drained_by_autoscaler(entry->second) &&
           Empty(cluster)(node);
}

void order_begins(const AutoscalePolicy& policy, AutoscaleState& state, std::uint32_t nodes, Time now) {
    state.ordered.push_back(
        {.nodes = nodes, .until = now + policy.timeout + policy.timeout});  // the command, then they
}

void order_ended(const AutoscalePolicy& policy, AutoscaleState& state, CommandResult result, Time now) {
    const bool done = result == CommandResult::done;
    if (!done) ++state.failures;
    state.order_after = now + (done ? policy.cooldown : pause(policy, state.failures, failed_pause_most));
    if (state.ordered.empty()) return;
    if (done || result == CommandResult::ended)  // its machines may come
        state.ordered.back().until = now + policy.timeout;
    else
        state.ordered.pop_back();
}

void release_ended(const AutoscalePolicy& policy, AutoscaleState& state, const NodeId& node, CommandResult result,
                   Time now) {
    if (result == CommandResult::done) return;
    state.release_after = now + policy.cooldown;
    if (result == CommandResult::not_now) state.idle_since[node] = now;
}

}  // namespace rtrain
