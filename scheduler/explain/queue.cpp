// Explains how quota, order and reservations affect a waiting run.
#include <algorithm>

#include "scheduler/explain/parts.hpp"
#include "scheduler/index/cluster.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/model/queue_use.hpp"
#include "scheduler/queue/order.hpp"
#include "scheduler/queue/shares.hpp"

namespace rtrain::core {
namespace {

std::string names_of(const std::vector<NodeId>& nodes) {
    std::string text;
    for (std::size_t i = 0; i < nodes.size() && i < limits::names_shown; ++i)
        text += (i == 0 ? "" : " ") + nodes[i].value;
    if (nodes.size() > limits::names_shown)
        text += " and " + std::to_string(nodes.size() - limits::names_shown) + " more";
    return text;
}

// "queue "nlp" holds 32 of 32 GPU (quota), borrows 8 from "research""
std::string quota_text(const Cluster& cluster, const std::string& queue, const Quotas& quotas) {
    const QueueRules& rules = rules_of(cluster.queues, queue);
    std::string text;
    for (const auto& [name, quota] : rules.quota) {
        const Sum in_use = amount_of(quotas.in_use(queue), name);
        text += (text.empty() ? "" : ", ") + to_text(in_use) + " of its quota of " + to_text(quota) + " " + name;
        if (in_use > quota) text += " (" + to_text(in_use - quota) + " borrowed from \"" + rules.parent + "\")";
    }
    return text.empty() ? "" : "quota: queue \"" + queue + "\" holds " + text;
}

// Returns "ana has used 99.5 of 100 GPU hours of queue "lab" within 30 days"; empty without such a budget.
std::string budget_text(const Cluster& cluster, Time now, const std::string& queue, const std::string& user) {
    const auto state = budget_of(cluster, queue, user, now);
    if (!state) return "";
    return (user.empty() ? "queue \"" + queue + "\" has" : user + " has") + " used " +
           to_text(gpu_hours_of(state->used)) + " of " + to_text(gpu_hours_of(state->limit)) + " GPU hours" +
           (user.empty() ? "" : " of queue \"" + queue + "\"") + " within " +
           span_text(rules_of(cluster.queues, queue).budget_window);
}

// Returns "; the next are free in 3h12" for a budget that is used up.
std::string frees_text(const Cluster& cluster, const Run& run, Time now, const OverQuota& over) {
    const auto state = budget_of(cluster, over.queue, over.of_user ? run.user : "", now);
    if (!state || state->limit == 0) return "";
    if (state->frees) return "; the next are free in " + ago(*state->frees - now);
    return "; none are free again while " + to_text(state->held) + " GPU stay in use";
}

// Adds the budgets of the run's queue and of the queues above it.
void add_budgets(const Cluster& cluster, const Run& run, Time now, std::vector<Rule>& rules) {
    for (const std::string* at = &run.spec.queue; !at->empty(); at = &rules_of(cluster.queues, *at).parent)
        for (const std::string& user : {std::string(), run.user})
            if (const std::string text = budget_text(cluster, now, *at, user); !text.empty())
                rules.push_back({RuleKind::quota, "budget: " + text});
}

// Returns the quotas as they are when a scheduling cycle considers this run: lenders reclaim their quota, and earlier
// runs have reserved a part.
Quotas quotas_for(const Cluster& cluster, const Run& run, const std::vector<RunId>& order) {
    Quotas quotas(cluster);
    claim_lent(quotas, cluster);
    for (const RunId id : order) {
        if (id == run.id) break;
        const Run& other = cluster.runs.at(id);
        if (other.nodes_reserved.empty()) continue;
        const auto over = quotas.refuses(other.spec.queue, demand_of(other), borrower(other, cluster.meta.now));
        if (!over) continue;
        quotas.starts(id);
        quotas.reserve(other.spec.queue, demand_of(other));
    }
    return quotas;
}

std::string before_text(const Cluster& cluster, const Run& run, const std::vector<RunId>& order) {
    const Run* first = nullptr;
    std::size_t count = 0;
    for (const RunId id : order) {
        if (id == run.id) break;
        if (first == nullptr) first = &cluster.runs.at(id);
        ++count;
    }
    if (first == nullptr) return "";
    std::string why = " (it is older)";
    if (yields(*first) != yields(run))
        why = " (it does not yield)";
    else if (first->spec.priority != run.spec.priority)
        why = " (priority " + std::to_string(first->spec.priority) + ", this has " + std::to_string(run.spec.priority) +
              ")";
    else if (first->spec.queue != run.spec.queue && !first->nodes_reserved.empty() &&
             cluster.meta.now - first->submitted >= limits::starves_after)
        why = " (it has waited long, and has nodes reserved)";
    else if (first->spec.queue != run.spec.queue)
        why = " (queue \"" + first->spec.queue + "\" has had less of its share)";
    return "order: " + std::to_string(count) + (count == 1 ? " run comes" : " runs come") + " before it, first " +
           first->name + why;
}

// Returns "1 CPU and GPU 0 of n1 n2; 1 CPU and GPU 1 of n3": nodes with equal reservations are joined.
std::string seats_text(const Run& run) {
    if (run.seats_reserved.empty()) return names_of(run.nodes_reserved);  // the reservation holds whole nodes
    const ReservedSeats seats = reserved_seats_of(run);
    std::vector<std::pair<std::string, std::vector<NodeId>>> alike;
    for (const auto& [node, held] : seats.nodes) {
        const std::string text = text_of(held);
        const auto known =
            std::find_if(alike.begin(), alike.end(), [&](const auto& entry) { return entry.first == text; });
        (known == alike.end() ? alike.emplace_back(text, std::vector<NodeId>{}) : *known).second.push_back(node);
    }
    std::string text;
    for (std::size_t i = 0; i < alike.size() && i < limits::names_shown; ++i)
        text += (i == 0 ? "" : "; ") + alike[i].first + " of " + names_of(alike[i].second);
    return text + (alike.size() > limits::names_shown ? "; and more" : "");
}

std::string reservation_text(const Cluster& cluster, const Run& run, Time now) {
    if (run.nodes_reserved.empty()) return "";
    const std::string seats = "reserved: " + seats_text(run);
    if (run.reserved_from > now) return seats + ", expected to start in " + ago(run.reserved_from - now);
    std::string after;
    std::size_t shown = 0;
    for (const AttemptId id : run.reserved_after)
        if (cluster.index.live_attempts().contains(id) && shown++ < limits::names_shown)
            after += (after.empty() ? "" : " and ") + name_of(cluster, id.run);
    if (after.empty()) return seats + ", until they are free; nobody knows when";
    return seats + ", once " + after + (shown == 1 ? " has" : " have") + " ended; nobody knows when";
}

// Returns "yielding: 2 runs are ending for it, first pool-1".
std::string ending_for(const Cluster& cluster, const Run& run) {
    const Run* first = nullptr;
    std::size_t count = 0;
    for (const RunId id : cluster.index.yielding()) {
        const Run& other = cluster.runs.at(id);
        const auto* why = std::get_if<reasons::YieldedTo>(&other.reason.value());
        if (why == nullptr || why->run != run.name) continue;
        if (first == nullptr) first = &other;
        ++count;
    }
    if (first == nullptr) return "";
    return "yielding: " + std::to_string(count) + (count == 1 ? " run is" : " runs are") + " ending for it, first " +
           first->name;
}

}  // namespace

const Cluster& with_index(const Cluster& cluster, Cluster& copy) {
    if (cluster.index.in_step()) return cluster;
    copy = cluster;
    copy.index.catch_up(copy);
    return copy;
}

namespace {
// "GPU 0", "GPUs 0-3 6, 0.5 of GPU 7".
std::string gpus_text(const std::vector<Amount>& gpus) {
    std::string numbers, parts;
    std::size_t whole = 0;
    for (std::size_t device = 0; device < gpus.size(); ++device) {
        const std::size_t first = device;
        if (gpus[device].ticks == 0) continue;
        if (gpus[device] < units(1)) {
            parts += (parts.empty() ? "" : ", ") + to_text(gpus[device]) + " of GPU " + std::to_string(device);
            continue;
        }
        while (device + 1 < gpus.size() && gpus[device + 1] >= units(1)) ++device;
        whole += device - first + 1;
        numbers += " " + std::to_string(first) + (device == first ? "" : "-" + std::to_string(device));
    }
    if (!numbers.empty()) numbers = (whole == 1 ? "GPU" : "GPUs") + numbers;
    return numbers + (numbers.empty() || parts.empty() ? "" : ", ") + parts;
}
}  // namespace

std::string text_of(const Held& held) {
    std::string text;
    for (const auto& [name, amount] : held.amounts)
        if (name != memory_key && amount.ticks > 0 && !name.starts_with("accelerator_type:"))
            text += (text.empty() ? "" : " ") + to_text(amount) + " " + name;
    const std::string gpus = gpus_text(held.gpus);
    if (text.empty() && gpus.empty()) return "memory";
    return text + (text.empty() || gpus.empty() ? "" : " and ") + gpus;
}

Quotas quotas_for(const Cluster& cluster, const Run& run) { return quotas_for(cluster, run, queue_order(cluster)); }

bool kept_out_by_quota(const Cluster& cluster, const Run& run) {
    if (cluster.queues.rules.empty()) return false;
    Cluster copy;
    const Cluster& all = with_index(cluster, copy);
    const Quotas quotas = quotas_for(all, run, queue_order(all));
    return quotas.refuses(run.spec.queue, demand_of(run), borrower(run, all.meta.now)).has_value();
}

std::vector<Rule> queue_rules(const Cluster& cluster, const Run& run, Time now, JobWords words) {
    Cluster copy;
    const Cluster& all = with_index(cluster, copy);
    const std::vector<RunId> order = queue_order(all);
    const Quotas quotas = quotas_for(all, run, order);
    std::vector<Rule> rules;
    const auto over = quotas.refuses(run.spec.queue, demand_of(run), borrower(run, now));
    if (over)
        rules.push_back({RuleKind::refused, "quota: " + to_text(reason_of(*over)) +
                                                (over->of_budget ? frees_text(all, run, now, *over)
                                                 : over->of_user ? "; " + run.user + " holds " + to_text(over->in_use)
                                                                 : "")});
    else
        rules.push_back({RuleKind::quota, quota_text(all, run.spec.queue, quotas)});
    add_budgets(all, run, now, rules);
    rules.push_back({RuleKind::order, before_text(all, run, order)});
    if (yields(run)) rules.push_back({RuleKind::order, "yields: it starts only in what is free beyond waiting runs"});
    rules.push_back({RuleKind::order, ending_for(all, run)});
    rules.push_back({RuleKind::reservation, reservation_text(all, run, now)});
    if (const auto last = all.attempts.find({.run = run.id, .number = run.attempts});
        run.state == RunState::queued && last != all.attempts.end())
        rules.push_back({RuleKind::last_attempt, "last attempt: " + to_text(last->second.cause, words)});
    std::erase_if(rules, [](const Rule& rule) { return rule.text.empty(); });
    return rules;
}

}  // namespace rtrain::core
