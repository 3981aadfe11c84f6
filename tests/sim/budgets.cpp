// See budgets.hpp.
#include "tests/sim/budgets.hpp"

#include <algorithm>

#include "scheduler/model/derived.hpp"

namespace rtrain::sim {
namespace {

bool is_below(const Queues& queues, std::string queue, const std::string& above) {
    while (!queue.empty() && queue != above) {
        const auto rules = queues.rules.find(queue);
        queue = rules == queues.rules.end() ? "" : rules->second.parent;
    }
    return queue == above;
}

Amount gpus_of(const Run& run, const Attempt& attempt) {
    Amount gpus;
    for (std::size_t rank = 0; rank < attempt.workers.size(); ++rank)
        gpus = gpus + amount_of(demand_of(run, rank), gpu_key);
    return gpus;
}

}  // namespace

__int128 BudgetWatch::used_within(const Cluster& cluster, const std::string& queue, const std::string* user,
                                  Time now) const {
    const Time begin{now.ms - cluster.queues.rules.at(queue).budget_window.ms};
    __int128 used = 0;
    for (const auto& [incarnation, held] : held_) {
        if (!is_below(cluster.queues, held.queue, queue) || (user != nullptr && held.user != *user)) continue;
        const Time until = held.until.ms == 0 ? now : held.until;
        used +=
            static_cast<__int128>(std::max<std::int64_t>((until - std::max(held.from, begin)).ms, 0)) * held.gpus.ticks;
    }
    return used;
}

std::string BudgetWatch::wrong_with(const Cluster& cluster, const Run& run, Time now) const {
    constexpr __int128 ms_of_hour = 3'600'000;
    std::string queue = run.spec.queue;
    for (auto at = cluster.queues.rules.find(queue); at != cluster.queues.rules.end();
         at = cluster.queues.rules.find(at->second.parent)) {
        const QueueRules& rules = at->second;
        const auto own = rules.user_gpu_hours_of.find(run.user);
        const auto of_user = own == rules.user_gpu_hours_of.end() ? rules.user_gpu_hours : own->second;
        const bool queue_is_out =
            rules.gpu_hours && used_within(cluster, at->first, nullptr, now) >= rules.gpu_hours->ticks * ms_of_hour;
        const bool user_is_out =
            of_user && used_within(cluster, at->first, &run.user, now) >= of_user->ticks * ms_of_hour;
        if (queue_is_out || user_is_out)
            return run.name + " started beyond the budget of " + (queue_is_out ? "queue " : "its user in queue ") +
                   at->first;
    }
    return "";
}

std::string BudgetWatch::decided(const Decision& decision, const Cluster& after) {
    std::string wrong;
    for (const Record& record : decision.save) {
        const auto* attempt = std::get_if<Attempt>(&record);
        if (attempt == nullptr || held_.contains(attempt->incarnation)) continue;
        const Run& run = after.runs.at(attempt->id.run);
        const auto before = states_.find(run.id);
        const bool was_queued = before == states_.end() || before->second == RunState::queued;
        const bool renumbered = attempt->state != AttemptState::placed;
        if (!was_queued || renumbered || gpus_of(run, *attempt).ticks == 0 || !wrong.empty()) continue;
        wrong = wrong_with(after, run, attempt->placed_at);
    }
    if (!decision.save.empty()) remember(after);
    return wrong;
}

void BudgetWatch::remember(const Cluster& cluster) {
    for (const auto& [id, run] : cluster.runs) states_[id] = run.state;
    for (const auto& [id, attempt] : cluster.attempts) {
        const Run& run = cluster.runs.at(id.run);
        held_[attempt.incarnation] = {.queue = run.spec.queue,
                                      .user = run.user,
                                      .gpus = gpus_of(run, attempt),
                                      .from = attempt.placed_at,
                                      .until = terminal(attempt.state) ? attempt.ended_at : Time{}};
    }
}

void BudgetWatch::forgotten(const Cluster& disk) {
    held_.clear();
    states_.clear();
    remember(disk);
}

}  // namespace rtrain::sim
