// Room for a run that may have it. Two rules let a waiting run take what others hold: its queue and theirs take part in
// preemption and they have a lower priority; or it is below its own quota, and they hold what their queue has borrowed.
// Elastic ones are asked to shrink before any is stopped; of those that would be stopped, those that lose the least GPU
// time since their last commit are asked. They are asked for a checkpoint, have a grace, and then wait again.
#include "scheduler/preemption.hpp"

#include <algorithm>

#include "scheduler/elastic.hpp"
#include "scheduler/machine.hpp"

namespace rtrain::core {
namespace {

struct Victim {
    std::int64_t lost = 0;  // since its last commit
    AttemptId attempt;
    std::uint32_t keeps = 0;  // so many of its workers
    auto operator<=>(const Victim&) const = default;
};
using Victims = std::vector<Victim>;

// Milliseconds times devices (or workers, where they have none) since the last commit.
std::int64_t lost_by(const Cluster& cluster, const Attempt& attempt, Time now) {
    const Run& run = cluster.runs.at(attempt.id.run);
    Time since = attempt.started_at.ms == 0 ? now : attempt.started_at;
    if (const Checkpoint* latest = latest_checkpoint(cluster, run.id); latest != nullptr)
        since = std::max(since, latest->committed);
    const Amount gpus = amount_of(held_by(cluster, attempt), gpu_key);
    const std::int64_t tenths =
        gpus.ticks > 0 ? gpus.ticks / (Amount::per_unit / 10) : static_cast<std::int64_t>(attempt.workers.size());
    return std::max<std::int64_t>((now - since).ms, 0) * std::max<std::int64_t>(tenths, 1);
}

bool may_take(const Cluster& cluster, const Quotas& quotas, const Run& taker, const Run& holder) {
    const QueueRules& mine = rules_of(cluster.queues, taker.spec.queue);
    const QueueRules& theirs = rules_of(cluster.queues, holder.spec.queue);
    if (mine.preempt && theirs.preempt && holder.spec.priority < taker.spec.priority) return true;
    const bool kin = !theirs.parent.empty() && quotas.below(taker.spec.queue, theirs.parent);
    return kin && holder.spec.queue != taker.spec.queue && quotas.borrows(holder.spec.queue) &&
           quotas.own(taker.spec.queue, demand_of(taker));
}

// Nobody gives way where no queue takes part in preemption and none has borrowed.
bool some_may_give_way(const Cluster& cluster, const Quotas& quotas, const Run& taker) {
    const bool preempts = rules_of(cluster.queues, taker.spec.queue).preempt;
    return std::any_of(cluster.queues.rules.begin(), cluster.queues.rules.end(), [&](const auto& entry) {
        return (preempts && entry.second.preempt) || (!entry.second.parent.empty() && quotas.borrows(entry.first));
    });
}

// How many of its workers an attempt keeps as things stand; none: all of them.
std::optional<std::uint32_t> keeps_anyway(const Attempt& attempt) {
    if (attempt.state == AttemptState::stopping) return 0;
    if (!asks_pending(attempt) || attempt.ask->reason == AskReason::by_operator) return std::nullopt;
    return attempt.ask->reason == AskReason::resize ? attempt.ask->workers : 0;
}

// What there will be once some have gone.
class Prospect {
  public:
    Prospect(const Cluster& cluster, const Quotas& quotas, const Run& taker)
        : cluster_(cluster), taker_(taker), nodes_(cluster.ledger.nodes()), quotas_(quotas) {
        for (const AttemptId id : cluster.ledger.live_attempts())
            if (const auto keeps = keeps_anyway(cluster.attempts.at(id))) let_go({.attempt = id, .keeps = *keeps});
    }
    bool fits_without(const Victims& victims) const {
        Prospect then = *this;
        for (const Victim& victim : victims) then.let_go(victim);
        return !then.quotas_.refuses(taker_.spec.queue, demand_of(taker_)) &&
               place(then.nodes_, request_of(taker_)).verdict == Verdict::feasible_now;
    }

  private:
    void let_go(const Victim& victim) {
        Attempt part = cluster_.attempts.at(victim.attempt);
        const Run& run = cluster_.runs.at(victim.attempt.run);
        // One that shrinks already may have to go as a whole: what it gives back is counted once.
        const auto size = static_cast<std::uint32_t>(part.workers.size());
        const auto kept = kept_.try_emplace(victim.attempt, size).first;
        Resources gone;
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            if (rank >= victim.keeps && rank < kept->second)
                add(gone, demand_of(run, rank));
            else
                part.workers[rank].seat = {};  // it stays, or has gone before
        }
        kept->second = std::min(kept->second, victim.keeps);
        give_back(nodes_, run.spec, part);
        quotas_.uncount(run.spec.queue, gone);
    }

    const Cluster& cluster_;
    const Run& taker_;
    std::vector<NodeView> nodes_;
    Quotas quotas_;
    std::map<AttemptId, std::uint32_t> kept_;  // workers that those who go still have
};

// Whom it may take from, the cheapest first: only shrunk, or as a whole.
enum class Part { shrunk, whole };
Victims victims(const Cluster& cluster, const Quotas& quotas, const Run& taker, Time now, Part part) {
    Victims found;
    for (const AttemptId id : cluster.ledger.live_attempts()) {
        const Attempt& attempt = cluster.attempts.at(id);
        const Run& holder = cluster.runs.at(id.run);
        const std::uint32_t least = workers_min(holder);
        const bool shrinks =
            holder.spec.elastic && attempt.state == AttemptState::running && attempt.workers.size() > least;
        const auto already = keeps_anyway(attempt);
        if (already || !may_take(cluster, quotas, taker, holder)) continue;  // asked already: its answer comes first
        if (part == Part::shrunk && !shrinks) continue;
        found.push_back(
            {.lost = lost_by(cluster, attempt, now), .attempt = id, .keeps = part == Part::shrunk ? least : 0});
    }
    std::sort(found.begin(), found.end());
    return found;
}

// As few as do: the shortest prefix, less those that turn out not to be needed, the dearest first.
Victims fewest(const Prospect& prospect, Victims all) {
    std::size_t enough = all.size();
    for (std::size_t few = 0; enough - few > 1;) {
        const std::size_t middle = few + (enough - few) / 2;
        const Victims some(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(middle));
        (prospect.fits_without(some) ? enough : few) = middle;
    }
    all.resize(enough);
    for (std::size_t i = all.size(); i-- > 0;) {
        Victims others = all;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        if (prospect.fits_without(others)) all = std::move(others);
    }
    return all;
}

void ask_to_go(Change& change, const Victim& victim, const Run& taker) {
    CheckpointAsk ask;
    ask.reason = victim.keeps > 0 ? AskReason::resize : AskReason::preemption;
    ask.why = "gives way to " + taker.name + " (priority " + std::to_string(taker.spec.priority) + ", queue \"" +
              taker.spec.queue + "\")";
    ask.deadline = change.now() + change.seen().queues.preemption_grace;
    ask.workers = victim.keeps;
    if (change.seen().attempts.at(victim.attempt).state == AttemptState::running)
        return ask_checkpoint(change, victim.attempt, std::move(ask));
    ask.asked = change.now();  // its workers have not begun: nothing is lost
    change.edit(victim.attempt).ask = std::move(ask);
    leave(change, victim.attempt);
}

}  // namespace

Resources held_by(const Cluster& cluster, const Attempt& attempt) {
    Resources held;
    for (std::size_t rank = 0; rank < attempt.workers.size(); ++rank)
        add(held, demand_of(cluster.runs.at(attempt.id.run), rank));
    return held;
}

bool make_room(Change& change, const Quotas& quotas, RunId waiting) {
    const Cluster& cluster = change.seen();
    if (cluster.queues.rules.empty()) return false;
    const Run& taker = cluster.runs.at(waiting);
    if (!some_may_give_way(cluster, quotas, taker)) return false;
    const Victims whole = victims(cluster, quotas, taker, change.now(), Part::whole);
    if (whole.empty()) return false;
    const Prospect prospect(cluster, quotas, taker);
    if (prospect.fits_without({})) return false;  // who must go has been asked already
    Victims chosen = victims(cluster, quotas, taker, change.now(), Part::shrunk);
    if (chosen.empty() || !prospect.fits_without(chosen)) chosen = whole;
    if (!prospect.fits_without(chosen)) return false;
    for (const Victim& victim : fewest(prospect, std::move(chosen))) ask_to_go(change, victim, taker);
    return true;
}

}  // namespace rtrain::core
