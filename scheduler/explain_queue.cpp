// What the rules of the queue say of a run that waits: quota, order, reservation.
#include <algorithm>

#include "scheduler/explain.hpp"
#include "scheduler/machine.hpp"
#include "scheduler/queue_order.hpp"
#include "scheduler/shares.hpp"

namespace rtrain::core {
namespace {

std::string names_of(const std::vector<NodeId>& nodes) {
    constexpr std::size_t shown_most = 8;
    std::string text;
    for (std::size_t i = 0; i < nodes.size() && i < shown_most; ++i) text += (i == 0 ? "" : " ") + nodes[i].value;
    if (nodes.size() > shown_most) text += " and " + std::to_string(nodes.size() - shown_most) + " more";
    return text;
}

// "queue "nlp" holds 32 of 32 GPU (quota), borrows 8 from "research""
std::string quota_text(const Cluster& cluster, const std::string& queue, const Quotas& quotas) {
    const QueueRules& rules = rules_of(cluster.queues, queue);
    std::string text;
    for (const auto& [name, quota] : rules.quota) {
        const Amount held = amount_of(quotas.held(queue), name);
        text += (text.empty() ? "" : ", ") + to_text(held) + " of its quota of " + to_text(quota) + " " + name;
        if (held > quota) text += " (" + to_text(held - quota) + " borrowed from \"" + rules.parent + "\")";
    }
    return text.empty() ? "" : "quota: queue \"" + queue + "\" holds " + text;
}

std::string before_text(const Cluster& cluster, const Run& run) {
    const Run* first = nullptr;
    std::size_t count = 0;
    for (const RunId id : queue_order(cluster)) {
        if (id == run.id) break;
        if (first == nullptr) first = &cluster.runs.at(id);
        ++count;
    }
    if (first == nullptr) return "";
    std::string why = " (it is older)";
    if (first->spec.priority != run.spec.priority)
        why = " (priority " + std::to_string(first->spec.priority) + ", this has " + std::to_string(run.spec.priority) +
              ")";
    else if (first->spec.queue != run.spec.queue && !first->nodes_reserved.empty() &&
             cluster.meta.now - first->submitted >= core::starves_after)
        why = " (it has waited long, and has nodes reserved)";
    else if (first->spec.queue != run.spec.queue)
        why = " (queue \"" + first->spec.queue + "\" has had less of its share)";
    return "order: " + std::to_string(count) + (count == 1 ? " run comes" : " runs come") + " before it, first " +
           first->name + why;
}

std::string reservation_text(const Run& run, Time now) {
    if (run.nodes_reserved.empty()) return "";
    const std::string nodes = names_of(run.nodes_reserved);
    if (run.reserved_from <= now) return "reserved: " + nodes + ", until they are free; nobody knows when";
    return "reserved: " + nodes + ", expected to start in " + ago(run.reserved_from - now);
}

}  // namespace

std::vector<std::string> queue_rules(const Cluster& cluster, const Run& run, Time now) {
    Cluster made;
    const bool stale = !cluster.ledger.in_step();
    if (stale) made = cluster;
    if (stale) made.ledger.catch_up(made);
    const Cluster& all = stale ? made : cluster;
    const Quotas quotas(all);
    std::vector<std::string> lines;
    const auto over = quotas.refuses(run.spec.queue, demand_of(run));
    lines.push_back(over ? "quota: " + to_text(*over) : quota_text(all, run.spec.queue, quotas));
    lines.push_back(before_text(all, run));
    lines.push_back(reservation_text(run, now));
    if (run.state == RunState::queued && run.attempts > 0) lines.push_back("last attempt: " + run.reason);
    std::erase(lines, "");
    return lines;
}

}  // namespace rtrain::core
