// Groups the reasons of nodes that do not fit: busy (with holder and end), a constraint, draining, reserved, too small.
#include <algorithm>

#include "scheduler/explain/parts.hpp"
#include "scheduler/index/cluster.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/placement/largest.hpp"
#include "scheduler/placement/room.hpp"
#include "scheduler/queue/backfill.hpp"

namespace rtrain::core {
namespace {

struct Why {
    Obstacle obstacle;
    std::string kind;
    std::string text;  // text about the node; nodes with equal texts are listed together
    std::string field;
    bool names_first = true;  // true: "n1-n3 by gpt-1b"; false: "rack = r1, nodes have r2"
};

// Returns "n1-n3 n7": consecutive numbers are joined.
std::string names_text(const std::vector<std::string>& names) {
    const auto parts = [](const std::string& name) {
        std::size_t digits = name.size();
        while (digits > 0 && std::isdigit(static_cast<unsigned char>(name[digits - 1])) != 0) --digits;
        const std::string number = name.substr(digits);
        const bool counts = !number.empty() && number.size() < 10;
        return std::pair(name.substr(0, digits), counts ? std::stoll(number) : -1);
    };
    std::vector<std::string> shown;
    for (std::size_t i = 0; i < names.size();) {
        std::size_t end = i + 1;
        const auto [prefix, first] = parts(names[i]);
        while (end < names.size() && first >= 0 &&
               parts(names[end]) == std::pair(prefix, first + static_cast<long long>(end - i)))
            ++end;
        shown.push_back(end - i >= 3 ? names[i] + "-" + names[end - 1] : names[i]);
        i = end - i >= 3 ? end : i + 1;
    }
    std::string text;
    for (std::size_t i = 0; i < shown.size() && i < limits::names_shown; ++i) text += (i == 0 ? "" : " ") + shown[i];
    if (shown.size() > limits::names_shown)
        text += " and " + std::to_string(shown.size() - limits::names_shown) + " more";
    return text;
}

const LabelCondition* unmet(const NodeView& node, const GangRequest& gang) {
    for (const Bundle& bundle : gang.bundles) {
        if (matches(bundle.selector, node.labels)) return nullptr;
        for (const LabelCondition& condition : bundle.selector)
            if (!matches({condition}, node.labels)) return &condition;
    }
    return nullptr;
}

Why constraint_of(std::string text, const char* field) {
    return {Obstacle::constraint, "constraint", std::move(text), field};
}

std::optional<Why> constraint(const NodeView& node, const GangRequest& gang) {
    if (!gang.nodes_only.empty() && !gang.nodes_only.contains(node.id))
        return constraint_of("not among the nodes that the job names", "scaling.nodes");
    if (gang.nodes_excluded.contains(node.id)) return constraint_of("excluded by the job", "scaling.exclude_nodes");
    if (gang.topology_label && !node.labels.contains(*gang.topology_label))
        return constraint_of("without the label " + *gang.topology_label, "scaling.topology");
    const LabelCondition* condition = unmet(node, gang);
    if (condition == nullptr) return std::nullopt;
    const auto label = node.labels.find(condition->key);
    const std::string has = label == node.labels.end() ? "nodes have no such label" : "nodes have " + label->second;
    return Why{Obstacle::constraint, "constraint", to_text(*condition) + ", " + has, "scaling.label_selector", false};
}

Why not_ready(const Cluster& cluster, const NodeView& view) {
    const Node& node = cluster.nodes.at(view.id);
    std::string word = to_text(shown_state(node));
    std::transform(word.begin(), word.end(), word.begin(), [](char c) { return static_cast<char>(std::tolower(c)); });
    return {.obstacle = Obstacle::not_ready, .kind = word, .text = why_out_of_use(node, JobWords::hidden), .field = ""};
}

// Returns a text with the attempts that must end before the run has room on the node, and with their expected end.
std::string holders_on(const Cluster& cluster, const NodeId& node, Time now) {
    ClusterIndex scratch;
    std::string text;
    for (const AttemptId id : in_step(cluster, scratch).on_node(node)) {
        const Attempt& attempt = cluster.attempts.at(id);
        text +=
            (text.empty() ? "by " : " and ") + name_of(cluster, id.run) + " (" + eta_text(cluster, attempt, now) + ")";
    }
    return text;
}

std::string lacking(const NodeView& node, const GangRequest& gang) {
    const Resources& demand = gang.bundles.front().demand;
    if (!placing::fits_gpus(node.gpus_free, amount_of(demand, gpu_key))) return "GPUs";
    for (const auto& [name, amount] : demand)
        if (name != gpu_key && amount > amount_of(node.free, name)) return name == cpu_key ? "CPUs" : std::string(name);
    return "room";
}

Why too_small(const NodeView& node, const GangRequest& gang) {
    const Resources& demand = gang.bundles.front().demand;
    const Amount gpus = units(static_cast<std::int64_t>(node.gpus_free.size()));
    std::string text;
    if (amount_of(demand, gpu_key) > gpus)
        text = "with " + to_text(gpus) + " GPU, a bundle needs " + to_text(amount_of(demand, gpu_key));
    for (const auto& [name, amount] : demand)
        if (text.empty() && name != gpu_key && amount > amount_of(node.total, name))
            text = "with " + to_text(amount_of(node.total, name)) + " " + name + ", a bundle needs " + to_text(amount);
    return {
        .obstacle = Obstacle::too_small, .kind = "too small", .text = text, .field = "scaling.resources_per_worker"};
}

// Returns "2 CPU and GPU 0 for big (starts in 10m)": the reservations because of which no bundle of the run fits on the
// node. Empty if one fits.
std::string reserved_text(const Cluster& cluster, const NodeView& node, const GangRequest& gang, ReservationMask closed,
                          Time now) {
    const std::size_t at = cluster.index.place_of(node.id);
    closed &= cluster.index.mask_of(at);
    if (closed == 0) return "";
    const OpenRoom room = room_beside(node, cluster.index.holds_on(at), closed);
    if (placing::takes_one(node, gang, room.free, room.gpus)) return "";
    std::string text;
    for (const NodeHold& hold : cluster.index.holds_on(at).seats) {
        if ((hold.bit & closed) == 0) continue;
        const Run& other = cluster.runs.at(hold.run);
        text +=
            (text.empty() ? "" : " and ") + (hold.whole ? "" : "(" + text_of(hold.seats) + ") ") + "for " + other.name;
        if (other.reserved_from > now) text += " (starts in " + ago(other.reserved_from - now) + ")";
    }
    return text;
}

std::optional<Why> why_not(const Cluster& cluster, ReservationMask closed, const NodeView& node,
                           const GangRequest& gang, Time now) {
    if (node.state != NodeState::ready) return not_ready(cluster, node);
    if (auto hard = constraint(node, gang)) return hard;
    if (!could_use(node, gang)) return too_small(node, gang);
    const bool fits = std::any_of(gang.bundles.begin(), gang.bundles.end(), [&](const Bundle& bundle) {
        return placing::slots(node.free, node.gpus_free, bundle.demand, 1) > 0;
    });
    if (!fits) return Why{Obstacle::busy, lacking(node, gang) + " busy", holders_on(cluster, node.id, now), ""};
    if (std::string text = reserved_text(cluster, node, gang, closed, now); !text.empty())
        return Why{Obstacle::reserved, "reserved", std::move(text), ""};
    return std::nullopt;
}

}  // namespace

std::string ago(Duration duration) {
    const std::int64_t seconds = std::max<std::int64_t>(duration.ms, 0) / 1000;
    if (seconds < 60) return std::to_string(seconds) + "s";
    if (seconds < 3600) return std::to_string(seconds / 60) + "m";
    const std::string minutes = std::to_string(seconds / 60 % 60);
    return std::to_string(seconds / 3600) + "h" + (minutes.size() < 2 ? "0" : "") + minutes;
}

std::string eta_text(const Cluster& cluster, const Attempt& attempt, Time now) {
    if (attempt.state == AttemptState::stopping) return "stopping";
    if (yields(cluster.runs.at(attempt.id.run))) return "yields";
    const auto end = expected_end(cluster, attempt, now);
    if (end) return "ETA " + ago(*end - now);
    return attempt.state == AttemptState::running ? "ETA unknown" : "ETA unknown: starting";
}

void group_reasons(const Cluster& cluster, const Run& run, Time now, Explanation& answer) {
    struct Group {
        std::uint32_t nodes = 0;
        std::string field;
        std::vector<std::pair<Why, std::vector<std::string>>> texts;
    };
    const GangRequest gang = request_of(run);
    std::map<std::string, Group> kinds;
    Cluster copy;
    const Cluster& all = with_index(cluster, copy);
    const ReservationMask closed = demand_of(run).empty() ? 0 : closed_to(all, run, now);
    for (const NodeView& node : all.index.nodes()) {
        ++answer.nodes;
        const auto why = why_not(all, closed, node, gang, now);
        answer.fitting += why ? 0 : 1;
        if (!why) continue;
        Group& group = kinds[why->kind];
        ++group.nodes;
        if (group.field.empty()) group.field = why->field;
        auto same = std::find_if(group.texts.begin(), group.texts.end(),
                                 [&](const auto& entry) { return entry.first.text == why->text; });
        if (same == group.texts.end()) same = group.texts.insert(same, {*why, {}});
        same->second.push_back(node.id.value);
    }
    for (const auto& [kind, group] : kinds) {
        std::string text;
        for (const auto& [why, names] : group.texts) {
            if (!text.empty()) text += why.names_first ? ", " : "; ";
            text += why.names_first ? names_text(names) + (why.text.empty() ? "" : " " + why.text) : why.text;
        }
        const Obstacle obstacle = group.texts.front().first.obstacle;
        answer.groups.push_back(
            {.nodes = group.nodes, .obstacle = obstacle, .kind = kind, .text = text, .field = group.field});
    }
    std::stable_sort(answer.groups.begin(), answer.groups.end(),
                     [](const ReasonGroup& a, const ReasonGroup& b) { return a.nodes > b.nodes; });
}

}  // namespace rtrain::core
