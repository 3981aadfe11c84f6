// Preempts runs for a waiting run. Two rules permit it. First: the queues of both runs take part in preemption, and the
// holder has a lower priority. Second: the waiting run's queue is below its own quota, and the holder's queue has
// borrowed from it. Elastic runs shrink before any run is stopped. Runs to stop are chosen so that the least GPU time
// since the last commits is lost. A preempted run gets a checkpoint request and a grace, and then waits again.
#include "scheduler/queue/preemption.hpp"

#include <algorithm>

#include "scheduler/index/change.hpp"
#include "scheduler/index/outlook.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/placement/largest.hpp"
#include "scheduler/queue/preemption_choice.hpp"

namespace rtrain::core {
namespace {

// Returns the work that a preemption of the attempt would lose: the milliseconds since its last commit, times the
// tenths of GPUs that it holds. For an attempt without GPUs, the number of its workers replaces the tenths of GPUs.
std::int64_t lost_by(const Cluster& cluster, const Attempt& attempt, Time now) {
    const Run& run = cluster.runs.at(attempt.id.run);
    Time since = attempt.started_at.ms == 0 ? now : attempt.started_at;
    if (const Checkpoint* latest = latest_checkpoint(cluster, run.id); latest != nullptr)
        since = std::max(since, latest->committed);
    const Sum gpus = amount_of(allocated_to(cluster, attempt), gpu_key);
    const std::int64_t tenths = gpus.ticks > 0 ? static_cast<std::int64_t>(gpus.ticks / (Amount::per_unit / 10))
                                               : static_cast<std::int64_t>(attempt.workers.size());
    return std::max<std::int64_t>((now - since).ms, 0) * std::max<std::int64_t>(tenths, 1);
}

struct Preemptor {  // The waiting run for which others are preempted.
    const Run& run;
    Sums demand = demand_of(run);
};

bool may_preempt(const Cluster& cluster, const Quotas& quotas, const Preemptor& preemptor, const Run& holder) {
    const QueueRules& own = rules_of(cluster.queues, preemptor.run.spec.queue);
    const QueueRules& others = rules_of(cluster.queues, holder.spec.queue);
    if (own.preempt && others.preempt && holder.spec.priority < preemptor.run.spec.priority) return true;
    return quotas.can_reclaim(holder.spec.queue, preemptor.run.spec.queue, preemptor.demand);
}

// Returns false if no run can be preempted: no queue takes part in preemption, and none has borrowed. Reads queues
// only, no runs.
bool some_may_be_preempted(const Cluster& cluster, const Quotas& quotas, const Run& preemptor) {
    const bool preempts = rules_of(cluster.queues, preemptor.spec.queue).preempt;
    return std::any_of(cluster.queues.rules.begin(), cluster.queues.rules.end(), [&](const auto& entry) {
        return (preempts && entry.second.preempt) || (!entry.second.parent.empty() && quotas.borrows(entry.first));
    });
}

// Returns the number of workers that the attempt will have after a preemption grace (the time from a checkpoint request
// to the stop) that begins now. Returns nullopt if no earlier request ends any of its workers by then. An attempt that
// shrinks is placed again with the remaining workers. A request without a deadline is ignored, because the time of the
// next commit is unknown. A yielding run ends for any preemptor (queue/yielding.hpp), so no other run has to end in its
// place.
std::optional<std::uint32_t> workers_after_grace(const Cluster& cluster, const Attempt& attempt, Time now) {
    const std::optional<CheckpointRequest>& request = attempt.request;
    if (yields(cluster.runs.at(attempt.id.run))) return 0;
    if (attempt.state == AttemptState::stopping) {
        const bool shrinks = cluster.runs.at(attempt.id.run).state == RunState::resizing && request &&
                             request->workers < attempt.workers.size();
        return shrinks ? request->workers : 0;
    }
    if (!request_pending(attempt) || request->reason == RequestReason::by_operator) return std::nullopt;
    if (!request->deadline || *request->deadline > now + cluster.queues.preemption_grace) return std::nullopt;
    return request->reason == RequestReason::resize ? request->workers : 0;
}

// Returns the time by which attempts that earlier requests end will have ended. Counts only attempts that this
// preemptor may preempt. Returns nullopt if there are none.
std::optional<Time> earlier_victims_end(const Cluster& cluster, const Quotas& quotas, const Preemptor& preemptor,
                                        Time now) {
    std::optional<Time> by;
    for (const AttemptId id : cluster.index.live_attempts()) {
        const Attempt& attempt = cluster.attempts.at(id);
        if (!attempt.request || !workers_after_grace(cluster, attempt, now) ||
            !may_preempt(cluster, quotas, preemptor, cluster.runs.at(id.run)))
            continue;
        by = std::max({by.value_or(now), request_pending(attempt) ? *attempt.request->deadline : now, now});
    }
    return by;
}

// Returns true if the preemptor would exceed its quota even after every possible victim is removed. Reads quotas only,
// no nodes.
bool never_within_quota(const Cluster& cluster, const Quotas& quotas, const Preemptor& preemptor, Time now,
                        const Victims& whole) {
    if (!quotas.refuses(preemptor.run.spec.queue, preemptor.demand, borrower(preemptor.run, now))) return false;
    Quotas then = quotas;
    const auto uncount = [&](AttemptId id) {
        then.uncount(cluster.runs.at(id.run).spec.queue, allocated_to(cluster, cluster.attempts.at(id)));
    };
    for (const AttemptId id : cluster.index.live_attempts())
        if (workers_after_grace(cluster, cluster.attempts.at(id), now)) uncount(id);
    for (const Victim& victim : whole) uncount(victim.attempt);
    return then.refuses(preemptor.run.spec.queue, preemptor.demand, borrower(preemptor.run, now)).has_value();
}

// The nodes and quotas as they would be after some attempts have ended. Attempts that an earlier request ends count as
// ended from the beginning.
class WhatIf {
  public:
    // `excepted`: an attempt that counts as running on, although a request is pending that would end it.
    WhatIf(const Cluster& cluster, const Quotas& quotas, const Preemptor& preemptor, Time now, ReservationMask open,
           std::optional<AttemptId> excepted = {})
        : cluster_(cluster),
          preemptor_(preemptor),
          who_(borrower(preemptor.run, now)),
          nodes_(Outlook(cluster, open)),
          quotas_(quotas) {
        scarce_ = amount_of(preemptor.demand, gpu_key).ticks > 0 ? gpu_key : "CPU";
        lacks_ = amount_of(preemptor.demand, scarce_).ticks;
        for (const AttemptId id : cluster.index.live_attempts())
            if (const auto keeps = workers_after_grace(cluster, cluster.attempts.at(id), now); keeps && id != excepted)
                release({.attempt = id, .keeps = *keeps});
        for (const NodeView& node : nodes_->nodes()) {
            if (node.state != NodeState::ready) continue;
            if (scarce_ != gpu_key)
                lacks_ -= amount_of(node.free, scarce_).ticks;
            else
                for (const Amount& device : node.gpus_free) lacks_ -= device.ticks;
        }
    }
    // Returns false if the free amount and the victims' amounts of the scarce resource are less than the preemptor
    // lacks in sum. Reads no nodes, so a caller can skip the search of `fits_without`.
    bool could_fit_without(const Victims& victims) const {
        __int128 gone = 0;
        for (const Victim& victim : victims) {
            const auto [known, added] = freed_.try_emplace(victim);
            if (added) known->second = left_by(victim);
            gone += known->second;
        }
        return gone >= lacks_;
    }
    bool fits_without(const Victims& victims) const {
        WhatIf then(*this, Bare{});
        std::vector<Attempt> parts;
        for (const Victim& victim : victims)
            if (then.is_preemptable(victim)) parts.push_back(then.take_leaving_workers(victim));
        if (then.quotas_.refuses(preemptor_.run.spec.queue, preemptor_.demand, who_)) return false;
        Outlook nodes = *nodes_;
        for (const Attempt& part : parts) nodes.give_back(part);
        return place(std::move(nodes).nodes(), request_of(preemptor_.run)).verdict == Verdict::feasible_now;
    }

    // Returns the victims that the preemptor may still preempt, in order, after the earlier victims are removed. Stops
    // when the lent amount is recovered.
    Victims still_preemptable(const Victims& victims) const {
        WhatIf then(*this, Bare{});
        Victims all;
        for (const Victim& victim : victims)
            if (then.is_preemptable(victim)) then.take_leaving_workers(victim), all.push_back(victim);
        return all;
    }

  private:
    struct Bare {};
    WhatIf(const WhatIf& other, Bare /*without nodes*/)
        : cluster_(other.cluster_),
          preemptor_(other.preemptor_),
          who_(other.who_),
          quotas_(other.quotas_),
          workers_left_(other.workers_left_) {}
    bool is_preemptable(const Victim& victim) const {
        return may_preempt(cluster_, quotas_, preemptor_, cluster_.runs.at(victim.attempt.run));
    }
    void release(const Victim& victim) { nodes_->give_back(take_leaving_workers(victim)); }
    __int128 left_by(const Victim& victim) const {
        const Attempt& attempt = cluster_.attempts.at(victim.attempt);
        const Run& run = cluster_.runs.at(victim.attempt.run);
        __int128 left = 0;
        for (std::size_t rank = victim.keeps; rank < attempt.workers.size(); ++rank)
            left += amount_of(demand_of(run, rank), scarce_).ticks;
        return left;
    }
    // Returns the part of the victim's attempt that ends, and subtracts its demand from the quotas. Workers that an
    // earlier call has already counted are left out: an attempt can be chosen to shrink first and to end as a whole
    // later.
    Attempt take_leaving_workers(const Victim& victim) {
        Attempt part = cluster_.attempts.at(victim.attempt);
        const Run& run = cluster_.runs.at(victim.attempt.run);
        const auto size = static_cast<std::uint32_t>(part.workers.size());
        const auto left = workers_left_.try_emplace(victim.attempt, size).first;
        Sums gone;
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            if (rank >= victim.keeps && rank < left->second)
                add(gone, demand_of(run, rank));
            else
                part.workers[rank].seat = {};  // The worker stays, or an earlier call has counted it.
        }
        left->second = std::min(left->second, victim.keeps);
        quotas_.uncount(run.spec.queue, gone);
        return part;
    }

    const Cluster& cluster_;
    const Preemptor& preemptor_;
    Borrower who_;
    std::optional<Outlook> nodes_;  // nullopt: this copy counts quotas only
    Quotas quotas_;
    std::map<AttemptId, std::uint32_t> workers_left_;  // number of workers that each victim still has
    std::string scarce_;  // the resource that `could_fit_without` compares: GPU if the preemptor needs GPUs, else CPU
    __int128 lacks_ = 0;  // amount of `scarce_` that the preemptor needs beyond what is free
    mutable std::map<Victim, __int128> freed_;
};

// Returns true if the end of the attempt can help the preemptor. It can if the attempt holds a node that the preemptor
// could use, or quota of a queue that contains both runs.
bool would_help(const Cluster& cluster, const Quotas& quotas, const Run& preemptor, const GangRequest& gang,
                const Attempt& attempt) {
    const std::string& queue = cluster.runs.at(attempt.id.run).spec.queue;
    for (const std::string* at = &preemptor.spec.queue; !at->empty(); at = &rules_of(cluster.queues, *at).parent)
        if (!rules_of(cluster.queues, *at).quota.empty() && quotas.below(queue, *at)) return true;
    return std::any_of(attempt.workers.begin(), attempt.workers.end(), [&](const Worker& worker) {
        const NodeView* node = cluster.index.node(worker.seat.node);
        return node != nullptr && could_use(*node, gang);
    });
}

// Returns true if a user has requested a stop of the run with a deadline.
bool stops_later(const Attempt& attempt) {
    return request_pending(attempt) && attempt.request->reason == RequestReason::stop && attempt.request->deadline;
}

// Returns the attempts that the preemptor may preempt, the cheapest first. Part::shrunk: elastic attempts, which keep
// their least number of workers. Part::whole: all attempts, which end as a whole.
enum class Part { shrunk, whole };
Victims victims(const Cluster& cluster, const Quotas& quotas, const Preemptor& preemptor, Time now, Part part) {
    const GangRequest gang = request_of(preemptor.run);
    Victims victims;
    for (const AttemptId id : cluster.index.live_attempts()) {
        const Attempt& attempt = cluster.attempts.at(id);
        const Run& holder = cluster.runs.at(id.run);
        const std::uint32_t least = workers_min(holder);
        const bool shrinks = holder.spec.elastic && attempt.state == AttemptState::running &&
                             attempt.workers.size() > least &&
                             (!request_pending(attempt) || attempt.request->reason <= RequestReason::resize);
        const auto already = workers_after_grace(cluster, attempt, now);
        if (already || stops_later(attempt) || !may_preempt(cluster, quotas, preemptor, holder))
            continue;  // An attempt that an earlier request ends is no new victim.
        if ((part == Part::shrunk && !shrinks) || !would_help(cluster, quotas, preemptor.run, gang, attempt)) continue;
        victims.push_back(
            {.lost = lost_by(cluster, attempt, now), .attempt = id, .keeps = part == Part::shrunk ? least : 0});
    }
    std::sort(victims.begin(), victims.end());
    return victims;
}

// Returns how many searches of the nodes one event may make. The number falls with the number of nodes, because each
// search copies the free amounts of all nodes.
std::size_t looks_at(const Cluster& cluster) {
    const std::size_t nodes = std::max<std::size_t>(cluster.index.nodes().size(), 1);
    return std::clamp(limits::nodes_looked_at / nodes, limits::looks_least, limits::looks_most);
}

// Returns the victims to preempt, preferably only by shrinking. If shrinking all of `shrunk` is not enough, further
// runs end as a whole. A run then keeps its size if the others suffice. Returns an empty list if all victims together
// are not enough.
Victims chosen_of(const Cluster& cluster, const WhatIf& what_if, const Victims& shrunk, const Victims& whole) {
    const auto enough = [&](const Victims& some) { return what_if.fits_without(some); };
    const auto possible = [&](const Victims& some) { return what_if.could_fit_without(some); };
    const std::size_t looks = looks_at(cluster);
    if (!shrunk.empty() && enough(shrunk))
        return cheapest(shrunk, {.enough = enough, .possible = possible, .looks = looks});
    if (!enough(whole)) return {};
    const auto beside = [&](Victims some) {
        some.insert(some.end(), shrunk.begin(), shrunk.end());
        return some;
    };
    const Victims stopped = cheapest(whole, {.enough = [&](const Victims& some) { return enough(beside(some)); },
                                             .possible = [&](const Victims& some) { return possible(beside(some)); },
                                             .looks = looks});
    Victims shrinking = shrunk;
    std::erase_if(shrinking, [&](const Victim& victim) {
        return std::any_of(stopped.begin(), stopped.end(),
                           [&](const Victim& other) { return other.attempt == victim.attempt; });
    });
    shrinking = without_unneeded(std::move(shrinking), [&](Victims some) {
        some.insert(some.end(), stopped.begin(), stopped.end());
        return enough(some);
    });
    shrinking.insert(shrinking.end(), stopped.begin(), stopped.end());
    return shrinking;
}

// Returns true if the preemptor needs the resources of `victim`: it fits if the victim ends, and does not fit
// otherwise. Reckoned::strictly: the preemptor may not use nodes and quotas that are reserved for other runs.
// Reckoned::as_asked: it may, as when its preemption was requested. `claimed`: the quotas as a scheduling cycle has
// them at its begin.
enum class Reckoned { as_asked, strictly };
bool needs(const Cluster& cluster, const Quotas& claimed, const Preemptor& preemptor, AttemptId victim, Time now,
           Reckoned how) {
    ReservationMask open = every_reservation;
    Quotas least = claimed;
    for (const RunId id : cluster.index.reserving()) {
        if (id == preemptor.run.id) continue;
        open &= ~cluster.index.reserved().bit_of(id);
        least.starts(id);  // reserve() in the next line counts the demand of this run.
        least.reserve(cluster.runs.at(id).spec.queue, demand_of(cluster.runs.at(id)));
    }
    if (WhatIf(cluster, least, preemptor, now, open, victim).fits_without({})) return false;
    return how == Reckoned::strictly ? WhatIf(cluster, least, preemptor, now, open).fits_without({})
                                     : WhatIf(cluster, claimed, preemptor, now, every_reservation).fits_without({});
}

}  // namespace

Reason preempted_by(const Run& preemptor) {
    return reasons::PreemptedBy{
        .run = preemptor.name, .priority = preemptor.spec.priority, .queue = preemptor.spec.queue};
}

std::size_t requests_looked_at(const Cluster& cluster) { return looks_at(cluster); }

std::optional<RunId> find_preemptor(Change& change, const Attempt& attempt, std::size_t& looks) {
    change.settle();
    const Cluster& cluster = change.seen();
    const ClusterIndex& index = cluster.index;
    const Quotas quotas(cluster);
    const Run& holder = cluster.runs.at(attempt.id.run);
    const RunId requested_for = attempt.request->preemptor;
    std::optional<Quotas> claimed;  // computed at the first use
    const auto lacks_it = [&](RunId id, std::uint32_t shape, Reckoned how) {
        const Preemptor preemptor{.run = cluster.runs.at(id), .demand = index.shape(shape).total};
        if (yields(preemptor.run) || !may_preempt(cluster, quotas, preemptor, holder) ||
            !would_help(cluster, quotas, preemptor.run, index.shape(shape).gang, attempt))
            return false;
        if (const auto over = quotas.refuses(preemptor.run.spec.queue, preemptor.demand, {.user = &preemptor.run.user});
            over && (over->of_user || over->of_budget))
            return false;
        if (looks == 0) return true;
        --looks;
        if (!claimed) claim_lent(claimed.emplace(cluster), change);
        return needs(cluster, *claimed, preemptor, attempt.id, change.now(), how);
    };
    if (index.waits(requested_for) && lacks_it(requested_for, index.shape_of(requested_for), Reckoned::as_asked))
        return requested_for;
    const QueueRules& rules = rules_of(cluster.queues, holder.spec.queue);
    const bool borrowed = quotas.borrowed(holder.spec.queue);
    for (const auto& [line, batches] : index.waiting()) {
        if (line.yields) break;
        const bool higher =
            line.priority > holder.spec.priority && rules.preempt && rules_of(cluster.queues, line.queue).preempt;
        if (!higher && !borrowed) continue;
        for (const auto& [shape, batch] : batches) {
            const RunId first = batch.by_age.begin()->id;
            if (first != requested_for && lacks_it(first, shape, Reckoned::strictly)) return first;
        }
    }
    return std::nullopt;
}

std::optional<PreemptionPlan> plan_preemption(const Change& change, Quotas quotas, RunId waiting,
                                              ReservationMask open) {
    const Cluster& cluster = change.seen();
    if (cluster.queues.rules.empty()) return std::nullopt;
    const Run& run = cluster.runs.at(waiting);
    if (yields(run) || !some_may_be_preempted(cluster, quotas, run)) return std::nullopt;
    const Preemptor preemptor{.run = run};
    quotas.start_withheld_by(change.now() + cluster.queues.preemption_grace, run);
    const Victims whole = victims(cluster, quotas, preemptor, change.now(), Part::whole);
    const auto requested_until = earlier_victims_end(cluster, quotas, preemptor, change.now());
    if (whole.empty() && !requested_until) return std::nullopt;
    if (never_within_quota(cluster, quotas, preemptor, change.now(), whole)) return std::nullopt;
    const WhatIf what_if(cluster, quotas, preemptor, change.now(), open);
    if (what_if.fits_without({}))  // Earlier requests already free enough resources.
        return requested_until ? std::optional(PreemptionPlan{.victims = {}, .by = *requested_until}) : std::nullopt;
    const Victims shrunk = victims(cluster, quotas, preemptor, change.now(), Part::shrunk);
    Victims chosen = what_if.still_preemptable(chosen_of(cluster, what_if, shrunk, whole));
    if (chosen.empty()) return std::nullopt;
    return PreemptionPlan{.victims = std::move(chosen), .by = change.now() + cluster.queues.preemption_grace};
}

}  // namespace rtrain::core
