// Explains for each node why a gang does not fit. Not used in scheduling cycles.
#include <algorithm>

#include "scheduler/model/limits.hpp"
#include "scheduler/model/records.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain {
namespace placing {
namespace {

const char* to_word(NodeState state) {
    switch (state) {
        case NodeState::ready:
            return "ready";
        case NodeState::draining:
            return "draining, takes no new bundle";
        case NodeState::quarantined:
            return "quarantined, takes no new bundle";
        case NodeState::lost:
            return "lost";
    }
    return "";
}

std::string gpu_reason(const std::vector<Amount>& gpus, Amount demand) {
    const std::string all = std::to_string(gpus.size());
    if (demand < units(1)) {
        const Amount most = gpus.empty() ? Amount{} : *std::max_element(gpus.begin(), gpus.end());
        if (gpus.empty()) return "has no GPU, bundle needs " + to_text(demand);
        return "the emptiest of " + all + " GPUs has " + to_text(most) + " free, bundle needs " + to_text(demand) +
               " on one";
    }
    if (units(static_cast<std::int64_t>(gpus.size())) < demand)
        return gpus.empty() ? "has no GPU, bundle needs " + to_text(demand)
                            : "has " + all + " GPUs, bundle needs " + to_text(demand);
    const auto untouched = std::count(gpus.begin(), gpus.end(), units(1));
    return std::to_string(untouched) + " of " + all + " GPUs untouched, bundle needs " + to_text(demand);
}

constexpr std::string_view accelerator_prefix = "accelerator_type:";

// Says which GPUs the node has instead. A node offers 1 of "accelerator_type:T" for each type T.
std::string accelerator_reason(const NodeView& node, std::string_view wanted) {
    std::string types;
    for (const auto& [name, amount] : node.total)
        if (std::string_view(name).starts_with(accelerator_prefix))
            types += (types.empty() ? "" : ", ") + name.substr(accelerator_prefix.size());
    return (types.empty() ? "has no GPU" : "has GPUs of type " + types) + ", bundle needs type " + std::string(wanted);
}

std::string shortage(const NodeView& node, const Resources& demand) {
    for (const auto& [name, amount] : demand) {
        if (amount.ticks == 0) continue;
        if (name == gpu_key) {
            if (!fits_gpus(node.gpus_free, amount)) return gpu_reason(node.gpus_free, amount);
            continue;
        }
        const Amount total = amount_of(node.total, name), free = amount_of(node.free, name);
        if (total.ticks == 0 && std::string_view(name).starts_with(accelerator_prefix))
            return accelerator_reason(node, std::string_view(name).substr(accelerator_prefix.size()));
        if (total.ticks == 0) return "has no " + name + ", bundle needs " + to_text(amount);
        if (total < amount) return "has " + to_text(total) + " " + name + ", bundle needs " + to_text(amount);
        if (free < amount)
            return to_text(free) + " of " + to_text(total) + " " + name + " free, bundle needs " + to_text(amount);
    }
    return "";
}

std::string constraint(const NodeView& node, const GangRequest& request) {
    if (node.awaited) return "not registered since the head started";
    if (node.state != NodeState::ready) return to_word(node.state);
    if (!request.nodes_only.empty() && !request.nodes_only.contains(node.id))
        return "not among the nodes that the job names";
    if (request.nodes_excluded.contains(node.id)) return "excluded by the job";
    if (request.topology_label && !node.labels.contains(*request.topology_label))
        return "has no label " + *request.topology_label;
    return "";
}

std::string label_reason(const NodeView& node, const LabelSelector& selector) {
    for (const LabelCondition& condition : selector) {
        if (matches({condition}, node.labels)) continue;
        const auto label = node.labels.find(condition.key);
        const std::string has =
            label == node.labels.end() ? "has no label " + condition.key : condition.key + " is " + label->second;
        return has + ", bundle needs " + to_text(condition);
    }
    return "";
}

// The request, analysed once for all nodes.
struct Asked {
    explicit Asked(const GangRequest& of) : request(of), alike(one_shape(wanted_of(of))) {
        for (const Bundle& bundle : of.bundles)
            if (kinds.empty() || !(*kinds.back() == bundle)) kinds.push_back(&bundle);
    }
    const GangRequest& request;
    const bool alike;
    std::vector<const Bundle*> kinds;  // equal neighbours are counted once
};

// Returns an empty text if any number of the gang's bundles fits there.
std::string reason_on(const NodeView& node, const Asked& asked) {
    const GangRequest& request = asked.request;
    const std::string hard = constraint(node, request);
    if (!hard.empty()) return hard;
    bool fits = false;
    std::string why;
    for (const Bundle* bundle : asked.kinds) {
        std::string here = label_reason(node, bundle->selector);
        if (here.empty()) here = shortage(node, bundle->demand);
        if (here.empty() && zero(bundle->demand) && zero_bundles_left(node, request.user) == 0)
            here = "user " + request.user + " has " + std::to_string(limits::zero_bundles_most) +
                   " workers without resources there, which is the most that one user may have on a node";
        if (here.empty())
            fits = true;
        else if (why.empty())
            why = here;
    }
    if (!fits) return why;
    const Bundle& first = request.bundles.front();
    const auto wanted = static_cast<std::uint32_t>(request.bundles.size());
    if (!asked.alike) return why.empty() ? "fits each bundle alone" : "fits some bundles; " + why;
    const std::uint32_t here = slots(node.free, node.gpus_free, first.demand, wanted);
    const std::string holds =
        "holds " + std::to_string(std::min(here, wanted)) + " of " + std::to_string(wanted) + " bundles";
    if (request.strategy == Strategy::strict_spread && wanted > 1)
        return "takes 1 of " + std::to_string(wanted) + " bundles";
    if (here < wanted && request.strategy == Strategy::strict_pack) return holds + ", all must be together";
    if (here < wanted && request.topology_label)
        return holds + ", all must be under one " + *request.topology_label + " (here " +
               node.labels.find(*request.topology_label)->second + ")";
    return here >= wanted ? "fits" : holds;
}

}  // namespace
}  // namespace placing

std::vector<NodeReason> placement_reasons(const std::vector<NodeView>& nodes, const GangRequest& request,
                                          std::size_t at_most) {
    if (auto wrong = placing::invalid_because(nodes, request)) return {{.node = {}, .text = *std::move(wrong)}};
    if (nodes.empty()) return {{.node = {}, .text = "there is no node"}};
    std::vector<NodeReason> reasons;
    const placing::Asked asked(request);
    for (auto node = nodes.begin(); node != nodes.end() && reasons.size() < at_most; ++node) {
        std::string text = placing::reason_on(*node, asked);
        if (!text.empty()) reasons.push_back({.node = node->id, .text = std::move(text)});
    }
    return reasons;
}

namespace {

enum class NearestChange { look, leave };
PlacementAnswer explained(const std::vector<NodeView>& nodes, const GangRequest& request, std::size_t reasons_most,
                          NearestChange nearest, const placing::QuotaRoom& quotas) {
    PlacementAnswer answer = place(nodes, request);
    answer.reasons = placement_reasons(nodes, request, reasons_most);
    const bool waits = answer.verdict != Verdict::feasible_now && answer.verdict != Verdict::invalid;
    if (waits && nearest == NearestChange::look)
        answer.nearest_change = placing::nearest_change(nodes, request, answer.verdict, quotas);
    return answer;
}

}  // namespace

PlacementAnswer explain_placement(const std::vector<NodeView>& nodes, const GangRequest& request) {
    return explained(nodes, request, nodes.size(), NearestChange::look, {});
}

PlacementAnswer placing::explain_briefly(const std::vector<NodeView>& nodes, const GangRequest& request,
                                         const QuotaRoom& quotas) {
    const bool alike = one_shape(wanted_of(request));
    const bool quick = nodes.size() <= limits::brief_nodes &&
                       request.bundles.size() <= (alike ? limits::brief_bundles : limits::brief_unlike);
    return explained(nodes, request, limits::brief_reasons, quick ? NearestChange::look : NearestChange::leave, quotas);
}

}  // namespace rtrain
