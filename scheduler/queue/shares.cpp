// See shares.hpp. All numbers are whole, so that a replay gives the same order on every machine.
#include "scheduler/queue/shares.hpp"

#include <algorithm>
#include <set>

#include "scheduler/index/change.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/model/queue_use.hpp"
#include "scheduler/placement/placement.hpp"

namespace rtrain::core {
bool known_queue(const Queues& queues, const std::string& queue) {
    return queue == default_queue || queues.rules.contains(queue);
}

const QueueRules& rules_of(const Queues& queues, const std::string& queue) {
    static const QueueRules without_limits;
    const auto entry = queues.rules.find(queue);
    return entry == queues.rules.end() ? without_limits : entry->second;
}

std::vector<std::string> queue_names(const Queues& queues) {
    std::vector<std::string> names;
    for (const auto& [name, rules] : queues.rules) names.push_back(name);
    if (!queues.rules.contains(default_queue)) names.emplace_back(default_queue);
    return names;
}

FairShare::FairShare(const Cluster& cluster, const ClusterIndex& index, Time now)
    : queues_(cluster.queues), totals_(index.totals()) {
    if (queues_.rules.empty()) return;  // With one queue there is nothing to divide.
    for (const auto& [queue, use] : cluster.use) {
        add(used_[queue], level_at(use, now, queues_.half_life));
        add(used_[queue], use.held);
    }
}

std::int64_t FairShare::of(const std::string& queue) {
    constexpr std::int64_t billion = 1'000'000'000;
    const auto entry = used_.find(queue);
    if (entry == used_.end()) return 0;
    const auto [known, unknown] = known_.try_emplace(queue);
    if (!unknown) return known->second;
    __int128 most = 0;
    for (const auto& [name, amount] : entry->second) {
        const Sum total = amount_of(totals_, name);
        if (total.ticks > 0) most = std::max(most, amount.ticks * billion / total.ticks);
    }
    most /= std::max<std::int64_t>(rules_of(queues_, queue).share, 1);
    return known->second = static_cast<std::int64_t>(std::min<__int128>(most, INT64_MAX));
}

void FairShare::count(const std::string& queue, const Sums& demand) {
    if (queues_.rules.empty()) return;
    add(used_[queue], demand);
    known_.erase(queue);
}

Quotas::Quotas(const Cluster& cluster) : cluster_(cluster), queues_(cluster.queues) {
    if (queues_.rules.empty()) return;
    if (!cluster.spent.known) own_spent_ = spent_budgets(cluster, cluster.meta.now);
    for (const auto& [queue, in_use] : cluster.index.in_use()) count(queue, in_use);
    limits_users_ = std::any_of(queues_.rules.begin(), queues_.rules.end(),
                                [](const auto& entry) { return entry.second.limits_users(); });
    if (!limits_users_) return;
    for (const auto& [who, held] : cluster.index.user_holds()) add_to_user(who.first, who.second, held.runs, held.gpus);
}

void Quotas::add_to_user(const std::string& queue, const std::string& user, std::int64_t runs, Sum gpus) {
    if (!limits_users_) return;
    for (const std::string* at = &queue; !at->empty(); at = &rules_of(queues_, *at).parent) {
        UserHold& held = held_by_user_[{*at, user}];
        held.runs += runs;
        held.gpus = held.gpus + gpus;
    }
}

std::optional<OverQuota> Quotas::beyond_user_limit(const std::string& queue, const Sums& demand,
                                                   const Borrower& who) const {
    if (!limits_users_ || who.user == nullptr) return std::nullopt;
    for (const std::string* at = &queue; !at->empty(); at = &rules_of(queues_, *at).parent) {
        const QueueRules& rules = rules_of(queues_, *at);
        if (!rules.limits_users()) continue;
        const auto entry = held_by_user_.find({*at, *who.user});
        const UserHold held = entry == held_by_user_.end() ? UserHold{} : entry->second;
        if (rules.user_runs && !who.has_attempt && held.runs >= *rules.user_runs)
            return OverQuota{.queue = *at,
                             .resource = "runs",
                             .in_use = Sum{} + units(held.runs),
                             .requested = Sum{} + units(1),
                             .quota = units(*rules.user_runs),
                             .of_user = true};
        const Sum gpus = gpus_of(demand);
        if (rules.user_gpus && gpus.ticks > 0 && held.gpus + gpus > *rules.user_gpus)
            return OverQuota{.queue = *at,
                             .resource = std::string(gpu_key),
                             .in_use = held.gpus,
                             .requested = gpus,
                             .quota = *rules.user_gpus,
                             .of_user = true};
    }
    return std::nullopt;
}

// A budget that is used up does not stop a run that has started: it continues after a failure, a drain or a resize.
// Only `budget_preempts` changes that.
std::optional<OverQuota> Quotas::beyond_budget(const std::string& queue, const Sums& demand,
                                               const Borrower& who) const {
    if (!budgets_count_ || gpus_of(demand).ticks == 0) return std::nullopt;
    const std::set<QueueUser>& used_up = (own_spent_ ? *own_spent_ : cluster_.spent).used_up;
    const bool goes_on = who.record != nullptr && who.record->state != RunState::queued;
    for (const std::string* at = &queue; !at->empty(); at = &rules_of(queues_, *at).parent) {
        const QueueRules& rules = rules_of(queues_, *at);
        if (!rules.has_budgets() || (goes_on && !rules.budget_preempts)) continue;
        const auto users = who.user == nullptr ? std::nullopt : user_budget(rules, *who.user);
        const bool user_is_out = users && (users->ticks == 0 || used_up.contains({*at, *who.user}));
        if (!user_is_out && !(rules.gpu_hours && used_up.contains({*at, ""}))) continue;
        return OverQuota{.queue = *at,
                         .resource = std::string(gpu_key),
                         .in_use = {},
                         .requested = gpus_of(demand),
                         .quota = user_is_out ? *users : *rules.gpu_hours,
                         .of_user = user_is_out,
                         .of_budget = true,
                         .window = rules.budget_window};
    }
    return std::nullopt;
}

std::optional<OverQuota> Quotas::beyond_limits(const std::string& queue, const Sums& demand,
                                               const Borrower& who) const {
    auto over = beyond_budget(queue, demand, who);
    return over ? over : beyond_user_limit(queue, demand, who);
}

bool Quotas::limit_keeps_out(const Line& line, const Sums& demand) const {
    return !line.user.empty() && beyond_limits(line.queue, demand, {.user = &line.user}).has_value();
}

const Sums& Quotas::in_use(const std::string& queue) const {
    static const Sums nothing;
    const auto entry = in_use_.find(queue);
    return entry == in_use_.end() ? nothing : entry->second;
}

void Quotas::count(const std::string& queue, const Sums& demand) {
    if (queues_.rules.empty()) return;
    for (const std::string* at = &queue; !at->empty(); at = &rules_of(queues_, *at).parent) add(in_use_[*at], demand);
}

void Quotas::uncount(const std::string& queue, const Sums& demand) {
    if (queues_.rules.empty()) return;
    for (const std::string* at = &queue; !at->empty(); at = &rules_of(queues_, *at).parent)
        subtract(in_use_[*at], demand);
}

void Quotas::reserve(const std::string& queue, const Sums& demand) {
    for (const std::string* at = &queue; !at->empty(); at = &rules_of(queues_, *at).parent) add(reserved_[*at], demand);
}

Borrower borrower(const Run& run, Time now) {
    const std::optional<Duration>& limit = run.spec.wall_time_limit;
    return {.run = run.id,
            .over_by = limit ? std::optional(now + *limit) : std::nullopt,
            .record = &run,
            .user = &run.user};
}

void Quotas::withhold(const Run& run, const Sums& demand) {
    const Withheld withheld{
        .demand = demand, .from = run.reserved_from.ms == 0 ? unknown_end : run.reserved_from, .waiting = &run};
    bool within = true;  // false: the queue, or one below it, borrows; nothing is withheld for what it borrows
    for (const std::string* at = &run.spec.queue; !at->empty(); at = &rules_of(queues_, *at).parent) {
        const bool own_here = own_beside(withheld_[*at], *at, withheld);
        within &= own_here;
        if (within) withheld_[*at].insert_or_assign(run.id, withheld);
        const std::string& above = rules_of(queues_, *at).parent;
        if (own_here && !above.empty()) not_lent_[above].insert_or_assign(run.id, withheld);
    }
}

// Returns true if the queue stays within its own quota with the demand of `withheld` and all demands in `others`,
// either now or at the begin of the reservation.
bool Quotas::own_beside(const std::map<RunId, Withheld>& others, const std::string& queue,
                        const Withheld& withheld) const {
    Sums with = withheld.demand;
    for (const auto& [run, other] : others)
        if (run != withheld.waiting->id) add(with, other.demand);
    return own(queue, with) || own_at(queue, with, withheld.from);
}

bool Quotas::withholds(const Run& run) const {
    const auto runs = withheld_.find(run.spec.queue);
    return runs != withheld_.end() && runs->second.contains(run.id);
}

void Quotas::starts(RunId run) {
    for (auto* by_queue : {&withheld_, &not_lent_})
        for (auto& [queue, runs] : *by_queue) runs.erase(run);
}

// `withheld_` and `not_lent_` subtract the attempts that end before a reservation begins. The plan has counted these
// attempts as ended already, so the demands move to `reserved_`.
void Quotas::start_withheld_by(Time time, const Run& waiting) {
    std::map<RunId, Withheld> begin;
    for (auto* by_queue : {&withheld_, &not_lent_})
        for (auto& [queue, runs] : *by_queue)
            std::erase_if(runs, [&](const auto& entry) {
                const Run& other = *entry.second.waiting;
                if (other.id == waiting.id || other.spec.priority < waiting.spec.priority || entry.second.from > time)
                    return false;
                begin.insert(entry);
                return true;
            });
    for (const auto& [run, withheld] : begin) reserve(withheld.waiting->spec.queue, withheld.demand);
}

// Returns how much of the resource `name` will be free by the time when the reservation `withheld` begins. Counts
// attempts of the queue `above` and of the queues below it.
Sum Quotas::ending(const Withheld& withheld, const std::string& above, const std::string& name, bool borrows) const {
    const ClusterIndex& index = cluster_.index;
    if (!borrows && withheld.from != unknown_end) return amount_of(ended_by(withheld.from, above), name);
    const ReservationMask bit = index.reserved().bit_of(withheld.waiting->id);
    std::set<AttemptId> attempts;
    for (const NodeId& node : withheld.waiting->nodes_reserved)
        for (const AttemptId id : index.on_node(node))
            if (const std::size_t at = index.place_of(node); at < index.nodes().size() &&
                                                             (index.ends_before(id, at) & bit) != 0 &&
                                                             below(cluster_.runs.at(id.run).spec.queue, above))
                attempts.insert(id);
    Sum sum;
    for (const AttemptId id : attempts) sum = sum + amount_of(allocated_to(cluster_, cluster_.attempts.at(id)), name);
    return sum;
}

// Returns the amount of the resource `name` that the run `who` must leave free in the quota of the queue `above`,
// because of reservations. For each begin of a reservation: add the demands of all reservations that begin by then, and
// subtract what attempts give back before. The result is the maximum over these begins. `borrows`: the run's queue
// would borrow the amount, so the list `not_lent_` applies.
Sum Quotas::withheld(const std::string& above, const std::string& name, const Borrower& who, bool borrows) const {
    Sum most;
    const auto& by_queue = borrows ? not_lent_ : withheld_;
    const auto entry = by_queue.find(above);
    if (entry == by_queue.end()) return most;
    std::vector<const Withheld*> some;
    for (const auto& [run, withheld] : entry->second) {
        // A run within its own quota comes before reservations of a lower priority.
        if (!borrows && who.record != nullptr && withheld.waiting->spec.priority < who.record->spec.priority) continue;
        const bool over_before = who.over_by && withheld.from != unknown_end && *who.over_by <= withheld.from;
        const bool own_program = who.record != nullptr && withheld.from == unknown_end &&
                                 programs_awaited(cluster_, *withheld.waiting).contains(program_of(*who.record));
        if (run != who.run && !over_before && !own_program) some.push_back(&withheld);
    }
    std::stable_sort(some.begin(), some.end(), [](const Withheld* a, const Withheld* b) { return a->from < b->from; });
    Sum sum;
    for (const Withheld* withheld : some) {
        sum = sum + amount_of(withheld->demand, name);
        if (sum > most) most = std::max(most, sum - ending(*withheld, above, name, borrows));
    }
    return most;
}

bool Quotas::below(const std::string& queue, const std::string& above) const {
    for (const std::string* at = &queue; !at->empty(); at = &rules_of(queues_, *at).parent)
        if (*at == above) return true;
    return false;
}

bool Quotas::own(const std::string& queue, const Sums& demand) const {
    const QueueRules& rules = rules_of(queues_, queue);
    return std::all_of(rules.quota.begin(), rules.quota.end(), [&](const auto& limit) {
        return amount_of(demand, limit.first).ticks == 0 ||
               amount_of(in_use(queue), limit.first) + amount_of(demand, limit.first) <= limit.second;
    });
}

// Returns the sum of what the queue's attempts hold that are expected to end by `time`. Includes the queues below it.
Sums Quotas::ended_by(Time time, const std::string& queue) const {
    const ClusterIndex& index = cluster_.index;
    Sums ended;
    const auto ends = [&](AttemptId id) {
        if (below(cluster_.runs.at(id.run).spec.queue, queue))
            add(ended, allocated_to(cluster_, cluster_.attempts.at(id)));
    };
    for (const Release& release : index.ends()) {
        if (release.end > time) break;
        ends(release.attempt);
    }
    for (const AttemptId id : index.restless())
        if (index.known_end(id) <= time) ends(id);
    return ended;
}

// Returns true if the queue stays within its own quota when it holds `demand` too, at the later time `time`.
bool Quotas::own_at(const std::string& queue, const Sums& demand, Time time) const {
    const QueueRules& rules = rules_of(queues_, queue);
    if (rules.quota.empty() || time == unknown_end) return rules.quota.empty();
    const Sums ended = ended_by(time, queue);
    return std::all_of(rules.quota.begin(), rules.quota.end(), [&](const auto& limit) {
        const auto& [name, quota] = limit;
        return amount_of(in_use(queue), name) - amount_of(ended, name) + amount_of(demand, name) <= quota;
    });
}

bool Quotas::borrows(const std::string& queue) const {
    const QueueRules& rules = rules_of(queues_, queue);
    return !rules.parent.empty() && std::any_of(rules.quota.begin(), rules.quota.end(), [&](const auto& limit) {
        return amount_of(in_use(queue), limit.first) > limit.second;
    });
}

// Returns the queue right below `above` on the way from `queue`. Returns `above` if it is `queue` itself.
const std::string& Quotas::child_towards(const std::string& queue, const std::string& above) const {
    const std::string* at = &queue;
    while (*at != above && rules_of(queues_, *at).parent != above) at = &rules_of(queues_, *at).parent;
    return *at;
}

// If a queue is within its own quota, it has borrowed nothing, even if the queues above it have borrowed.
bool Quotas::can_reclaim(const std::string& holder, const std::string& preemptor, const Sums& demand) const {
    std::set<std::string> within;
    for (const std::string* at = &holder; !rules_of(queues_, *at).parent.empty(); at = &rules_of(queues_, *at).parent) {
        const QueueRules& rules = rules_of(queues_, *at);
        bool over = false;
        for (const auto& [name, quota] : rules.quota) {
            if (amount_of(demand, name).ticks == 0) continue;
            if (amount_of(in_use(*at), name) <= quota)
                within.insert(name);
            else
                over |= !within.contains(name);
        }
        const bool inside = below(preemptor, *at);
        if (!over || preemptor == *at || (inside && *at != holder)) continue;
        const std::string& lender = inside ? *at : rules.parent;
        if (below(preemptor, lender) && own(child_towards(preemptor, lender), demand)) return true;
    }
    return false;
}

Sum Quotas::reserved_in(const std::string& queue, const std::string& name) const {
    const auto reserved = reserved_.find(queue);
    return reserved == reserved_.end() ? Sum{} : amount_of(reserved->second, name);
}

bool Quotas::claims_back(const std::string& queue) const {
    return std::find(claimed_back_.begin(), claimed_back_.end(), queue) != claimed_back_.end();
}

bool Quotas::borrowed(const std::string& queue) const {
    for (const std::string* at = &queue; !at->empty(); at = &rules_of(queues_, *at).parent)
        if (borrows(*at)) return true;
    return false;
}

// Checks the quota of the queue and of each queue above it. If a queue would exceed its quota, its parent must lend the
// difference. A queue that borrows gets nothing more while the lender reclaims its quota.
std::optional<OverQuota> Quotas::refuses(const std::string& queue, const Sums& demand, const Borrower& who) const {
    if (auto over = beyond_limits(queue, demand, who)) return over;
    bool beyond_below = false;
    std::string lender;
    for (const std::string* next = &queue; !next->empty(); next = &rules_of(queues_, *next).parent) {
        const std::string& at = *next;
        bool beyond = false;
        const QueueRules& rules = rules_of(queues_, at);
        for (const auto& [name, quota] : rules.quota) {
            const Sum requested = amount_of(demand, name), has = amount_of(in_use(at), name);
            const Sum reserved = reserved_in(at, name);
            if (requested.ticks == 0) continue;
            const bool room = has + reserved + requested <= quota;
            const bool claimed =
                beyond_below &&
                (claims_back(at) || (room && has + reserved + requested + withheld(at, name, who, true) > quota));
            const Sum promised = room && !beyond_below ? withheld(at, name, who, false) : Sum{};
            if (room && !claimed && has + reserved + requested + promised <= quota) continue;
            if (at != queue && !beyond_below && lender.empty()) lender = at;
            beyond = true;
            if (!claimed && promised.ticks == 0 && rules.borrow && !rules.parent.empty()) continue;
            return OverQuota{.queue = at,
                             .resource = name,
                             .in_use = has,
                             .requested = requested,
                             .quota = quota,
                             .reserved = reserved + promised,
                             .lender = std::move(lender),
                             .claimed = claimed,
                             .promised = promised.ticks > 0};
        }
        beyond_below = beyond;
    }
    return std::nullopt;
}

namespace {

template <class Ever>
void claim(Quotas& quotas, const Cluster& cluster, const Ever& ever) {
    if (cluster.queues.rules.empty()) return;
    const ClusterIndex& index = cluster.index;
    const Quotas unused = quotas_unused(cluster);
    for (const auto& [line, batches] : index.waiting()) {
        if (line.yields) break;
        for (const auto& [shape, batch] : batches)
            if (const auto over = quotas.refuses(line.queue, index.shape(shape).total);
                over && over->lent() && ever(shape) && !unused.refuses(line.queue, index.shape(shape).total) &&
                !quotas.limit_keeps_out(line, index.shape(shape).total))
                quotas.claim_back(over->lender);
    }
    std::vector<const Run*> reserving;
    for (const RunId id : index.reserving()) reserving.push_back(&cluster.runs.at(id));
    const auto begin = [](const Run* run) { return run->reserved_from.ms == 0 ? unknown_end : run->reserved_from; };
    std::stable_sort(reserving.begin(), reserving.end(),
                     [&](const Run* a, const Run* b) { return begin(a) < begin(b); });
    for (const Run* run : reserving) {
        const Sums& demand = index.shape(index.shape_of(run->id)).total;
        const Borrower who{.record = run, .user = &run->user};
        if (!quotas.beyond_budget(run->spec.queue, demand, who)) quotas.withhold(*run, demand);
    }
}

}  // namespace

void claim_lent(Quotas& quotas, Change& change) {
    claim(quotas, change.seen(), [&](std::uint32_t shape) { return change.index().ever(shape); });
}

void claim_lent(Quotas& quotas, const Cluster& cluster) {
    const ClusterIndex& index = cluster.index;
    claim(quotas, cluster, [&](std::uint32_t shape) {
        return place(index.nodes(), index.shape(shape).gang).verdict != Verdict::infeasible;
    });
}

Quotas quotas_unused(const Cluster& cluster) {
    Quotas quotas(cluster);
    for (const auto& [queue, in_use] : cluster.index.in_use()) quotas.uncount(queue, in_use);
    quotas.forget_users();
    return quotas;
}

placing::QuotaRoom quota_room(const Quotas& now, const std::string& queue, const Borrower& who) {
    const auto allows = [queue, who](const Quotas& quotas) {
        return [quotas, queue, who](const GangRequest& gang) {
            Sums total;
            for (const Bundle& bundle : gang.bundles) add(total, bundle.demand);
            return !quotas.refuses(queue, total, who);
        };
    };
    return {.now = allows(now), .ever = allows(quotas_unused(now.cluster()))};
}

Reason reason_of(const OverQuota& over) {
    if (over.of_budget)
        return reasons::BudgetUsed{
            .queue = over.queue, .of_user = over.of_user, .gpu_hours = over.quota, .window = over.window};
    if (over.of_user)
        return reasons::QueueUserLimit{
            .queue = over.queue, .resource = over.resource, .requested = over.requested, .limit = over.quota};
    if (over.claimed) return reasons::QuotaReclaimed{.queue = over.queue, .resource = over.resource};
    return reasons::QuotaFull{.queue = over.queue,
                              .resource = over.resource,
                              .held = over.in_use,
                              .requested = over.requested,
                              .quota = over.quota,
                              .reserved = over.reserved};
}

}  // namespace rtrain::core
