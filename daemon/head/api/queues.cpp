// Lists the queues: their rules, their holdings with the queues below them, and their recent use.
#include <algorithm>
#include <set>

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "scheduler/model/queue_use.hpp"
#include "storage/job_spec/fields/rules.hpp"

namespace rtrain::head {
namespace {

double hours_in(std::int64_t gpu_ms) { return static_cast<double>(gpu_ms) / 3'600'000; }

struct Counts {
    std::size_t waiting = 0, running = 0;
};

json sums_json(const Sums& sums) {
    json out = json::object();
    for (const auto& [name, amount] : sums)
        if (amount.ticks > 0) out[name] = to_text(amount);
    return out;
}

// Returns true if `queue` is `above`, or lies below it. The number of steps is bounded, since parents could form a
// circle.
bool lies_below(const Queues& queues, std::string queue, const std::string& above) {
    for (std::size_t steps = 0; steps <= queues.rules.size(); ++steps) {
        if (queue == above) return true;
        const auto rules = queues.rules.find(queue);
        if (rules == queues.rules.end() || rules->second.parent.empty()) return false;
        queue = rules->second.parent;
    }
    return false;
}

std::map<std::string, Counts> counts_of(const Cluster& cluster, const ClusterIndex& index) {
    std::map<std::string, Counts> counts;
    for (const auto& [line, batches] : index.waiting())
        for (const auto& [shape, batch] : batches) counts[line.queue].waiting += batch.by_age.size();
    for (const AttemptId& id : index.live_attempts()) ++counts[cluster.runs.at(id.run).spec.queue].running;
    return counts;
}

json budget_json(const std::string& user, const core::BudgetState& state, Time now) {
    return {{"user", user.empty() ? json() : json(user)},
            {"gpu_hours", hours_in(state.limit)},
            {"used", hours_in(state.used)},
            {"used_up", state.used_up},
            {"frees_in_ms", state.frees ? json(std::max<std::int64_t>((*state.frees - now).ms, 0)) : json()}};
}

// Returns the queue's own budget, and the budgets of those users who have used GPUs within the window or have a budget
// by name.
json budgets_json(const Cluster& cluster, const std::string& queue, const QueueRules& rules, Time now) {
    json out = json::array();
    if (!rules.has_budgets()) return out;
    std::set<std::string> users{""};
    for (const auto& [user, hours] : rules.user_gpu_hours_of) users.insert(user);
    for (auto at = cluster.budgets.lower_bound({queue, ""}); at != cluster.budgets.end() && at->first.first == queue;
         ++at)
        users.insert(at->first.second);
    for (const std::string& user : users)
        if (const auto state = core::budget_of(cluster, queue, user, now))
            out.push_back(budget_json(user, *state, now));
    return out;
}

json hours_or_null(const std::optional<Amount>& hours) { return hours ? json(to_text(*hours)) : json(); }

json hours_of_users(const QueueRules& rules) {
    json out = json::object();
    for (const auto& [user, hours] : rules.user_gpu_hours_of) out[user] = to_text(hours);
    return out;
}

}  // namespace

void get_queues(Exchange& exchange) {
    const Cluster& cluster = exchange.view.cluster;
    ClusterIndex scratch;
    const ClusterIndex& index = in_step(cluster, scratch);
    std::map<std::string, QueueRules> rules = cluster.queues.rules;
    rules.try_emplace(default_queue);
    const auto counts = counts_of(cluster, index);
    const Time now = exchange.view.clock.now();
    json items = json::array();
    for (const auto& [name, own] : rules) {
        Sums in_use, recent_use;
        for (const auto& [queue, held] : index.in_use())
            if (lies_below(cluster.queues, queue, name)) add(in_use, held);
        if (const auto use = cluster.use.find(name); use != cluster.use.end())
            add(recent_use, core::level_at(use->second, now, cluster.queues.half_life));
        const auto count = counts.find(name);
        const Counts of = count == counts.end() ? Counts{} : count->second;
        items.push_back({{"name", name},
                         {"parent", own.parent.empty() ? json() : json(own.parent)},
                         {"share", own.share},
                         {"borrow", own.borrow},
                         {"preempt", own.preempt},
                         {"waiting", of.waiting},
                         {"running", of.running},
                         {"in_use", sums_json(in_use)},
                         {"quota", resources_json(own.quota)},
                         {"user_runs", own.user_runs ? json(*own.user_runs) : json()},
                         {"user_gpus", own.user_gpus ? json(to_text(*own.user_gpus)) : json()},
                         {"gpu_hours", hours_or_null(own.gpu_hours)},
                         {"user_gpu_hours", hours_or_null(own.user_gpu_hours)},
                         {"user_gpu_hours_of", hours_of_users(own)},
                         {"budget_window", spec::duration_text(own.budget_window.ms)},
                         {"budget_preempts", own.budget_preempts},
                         {"budgets", budgets_json(cluster, name, own, now)},
                         {"recent_use", sums_json(recent_use)}});
    }
    reply_json(exchange, 200, {{"items", std::move(items)}, {"next_cursor", json()}});
}

}  // namespace rtrain::head
