// See backfill.hpp.
#include "scheduler/queue/backfill.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "scheduler/model/derived.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain::core {
namespace {

struct Commits {  // of one attempt, as far as they are on record
    const Checkpoint* first = nullptr;
    const Checkpoint* latest = nullptr;
};
Commits commits_of(const Cluster& cluster, AttemptId id) {
    Commits commits;
    for (auto at = cluster.checkpoints.lower_bound({.run = id.run, .directory = {}});
         at != cluster.checkpoints.end() && at->first.run == id.run; ++at) {
        const Checkpoint& checkpoint = at->second;
        if (checkpoint.attempt != id.number) continue;
        if (commits.first == nullptr || checkpoint.sequence < commits.first->sequence) commits.first = &checkpoint;
        if (commits.latest == nullptr || checkpoint.sequence > commits.latest->sequence) commits.latest = &checkpoint;
    }
    return commits;
}

// The last checkpoint says how far the run is on its way to `stop: {epoch: 20}`; it goes on at the pace since the first
// one of the same attempt. With one alone: since the attempt began, where it is known how far the run was then.
std::optional<Time> end_by_progress(const Cluster& cluster, const Attempt& attempt) {
    const RunSpec& spec = cluster.runs.at(attempt.id.run).spec;
    if (spec.stop_at.empty()) return std::nullopt;
    const auto [first, latest] = commits_of(cluster, attempt.id);
    if (latest == nullptr) return std::nullopt;
    const bool several = first != latest;
    const auto from = cluster.checkpoints.find({.run = attempt.id.run, .directory = attempt.from});
    const Checkpoint* before = several ? first : from == cluster.checkpoints.end() ? nullptr : &from->second;
    const Time since = several ? first->committed : attempt.started_at;
    if ((before == nullptr && !attempt.from.empty()) || latest->committed <= since) return std::nullopt;
    std::optional<Time> end;
    for (const auto& [key, target] : spec.stop_at) {
        const auto reached = latest->metrics.find(key);
        if (reached == latest->metrics.end() || (before != nullptr && !before->metrics.contains(key))) continue;
        const double gained = reached->second - (before == nullptr ? 0 : before->metrics.at(key));
        if (gained <= 0 || target <= reached->second) continue;
        const double left = (target - reached->second) / gained * static_cast<double>((latest->committed - since).ms);
        if (!(left < 1e15)) continue;
        const Time at = latest->committed + Duration{static_cast<std::int64_t>(std::llround(left))};
        if (!end || at < *end) end = at;
    }
    return end;
}

// Attempts in the order in which they are expected to end: those that time does not move stand in the cluster index,
// the others are put between them.
class Releases {
  public:
    Releases(const Cluster& cluster, Time now) : ends_(cluster.index.ends()), next_(ends_.begin()) {
        for (const AttemptId id : cluster.index.restless()) {
            const Attempt& attempt = cluster.attempts.at(id);
            const Time end = expected_end(cluster, attempt, now).value_or(unknown_end);
            restless_.push_back({.end = end, .placed = attempt.placed_at, .attempt = id});
        }
        std::sort(restless_.begin(), restless_.end());
    }
    const Release* next() const {
        const bool rests = next_ != ends_.end(), moves = at_ < restless_.size();
        if (!rests && !moves) return nullptr;
        return rests && (!moves || *next_ < restless_[at_]) ? &*next_ : &restless_[at_];
    }
    void pass() { next_ != ends_.end() && next() == &*next_ ? void(++next_) : void(++at_); }

  private:
    const std::set<Release>& ends_;
    std::set<Release>::const_iterator next_;
    std::vector<Release> restless_;
    std::size_t at_ = 0;
};

// The nodes as they will be after some of the releases. Of gangs that the index knows only the nodes are looked at that
// are released.
class Future {
  public:
    Future(ClusterIndex& index, std::uint32_t shape, ReservationMask open)
        : index_(index),
          gang_(index.shape(shape).gang),
          open_(open),
          known_(index.uniform(shape, open)),
          touched_at_(index.nodes().size(), untouched) {
        if (known_ != nullptr) {
            limits_ = index.free_slots().limits(*known_);
            return;
        }
        for (std::size_t i = 0; i < index.nodes().size(); ++i)
            if (allowed(i)) touch(i);
    }
    void release(AttemptId id) {
        for (const auto& [node, allocated] : index_.allocated_to(id)) {
            const std::size_t i = index_.place_of(node);
            if (i == index_.nodes().size() || !allowed(i)) continue;
            Then& then = touch(i);
            give_back(then, allocated.first, allocated.second);
            recount(then);
        }
    }
    // Exact for gangs of one shape; for others the first bundle stands for all, and `seats` has the last word.
    bool enough() const {
        const std::uint64_t wanted = gang_.bundles.size();
        return limits_[static_cast<std::size_t>(gang_.strategy)] >= wanted;
    }
    Seats seats() const {
        std::vector<NodeView> nodes;
        for (const Then& then : touched_) {
            if (known_ != nullptr && then.slots == 0) continue;
            NodeView& node = nodes.emplace_back(view(then));
            node.free = then.free;
            node.gpus_free = then.gpus;
        }
        if (known_ != nullptr)
            for (const NodeView* node : index_.free_slots().with_room(*known_))
                if (touched_at_[index_.place_of(node->id)] == untouched) nodes.push_back(*node);
        std::sort(nodes.begin(), nodes.end(), [](const NodeView& a, const NodeView& b) { return a.id < b.id; });
        return place(nodes, gang_).seats;
    }

  private:
    struct Then {
        std::size_t place = 0;  // of the node, in the cluster index
        Resources free;
        std::vector<Amount> gpus;
        std::uint32_t slots = 0;
    };
    static constexpr std::size_t untouched = SIZE_MAX;
    const NodeView& view(const Then& then) const { return index_.nodes()[then.place]; }
    bool allowed(std::size_t i) const {
        return (index_.mask_of(i) & ~open_) == 0 && placing::allowed(index_.nodes()[i], gang_);
    }
    Then& touch(std::size_t i) {
        if (touched_at_[i] != untouched) return touched_[touched_at_[i]];
        touched_at_[i] = touched_.size();
        const NodeView& node = index_.nodes()[i];
        Then& then = touched_.emplace_back(Then{.place = i, .free = node.free, .gpus = node.gpus_free});
        if (known_ != nullptr)
            then.slots = slots_of(then);  // the limits count it already
        else
            recount(then);
        return then;
    }
    void give_back(Then& then, const Resources& demand, const std::vector<GpuShare>& shares) const {
        for (const auto& [name, amount] : demand) {
            const Amount total = amount_of(view(then).total, name);
            if (name == gpu_key || total.ticks == 0 || amount.ticks == 0) continue;
            Amount& free = then.free[name];
            free = std::min(total, free + amount);
        }
        for (const GpuShare& share : shares)
            if (share.device < then.gpus.size())
                then.gpus[share.device] = std::min(units(1), then.gpus[share.device] + share.amount);
    }
    std::uint32_t slots_of(const Then& then) const {
        const Bundle& bundle = gang_.bundles.front();
        if (!matches(bundle.selector, view(then).labels)) return 0;
        return placing::slots(then.free, then.gpus, bundle.demand, UINT32_MAX);
    }
    void recount(Then& then) {
        const std::uint32_t now = slots_of(then);
        for (const Strategy all : {Strategy::pack, Strategy::spread}) limit(all) += now - std::uint64_t{then.slots};
        limit(Strategy::strict_pack) = std::max<std::uint64_t>(limit(Strategy::strict_pack), now);
        limit(Strategy::strict_spread) += (now > 0 ? 1U : 0U) - (then.slots > 0 ? 1U : 0U);
        then.slots = now;
    }
    std::uint64_t& limit(Strategy strategy) { return limits_[static_cast<std::size_t>(strategy)]; }

    ClusterIndex& index_;
    const GangRequest& gang_;
    ReservationMask open_;
    const UniformGang* known_;
    FreeIndex::Limits limits_{};
    std::vector<Then> touched_;
    std::vector<std::size_t> touched_at_;  // per node of the cluster index: where it is in `touched_`
};

Reservation reserved(const Seats& seats, Time from) {
    Reservation reservation{.nodes = {}, .from = from};
    for (const Seat& seat : seats) reservation.nodes.push_back(seat.node);
    std::sort(reservation.nodes.begin(), reservation.nodes.end());
    reservation.nodes.erase(std::unique(reservation.nodes.begin(), reservation.nodes.end()), reservation.nodes.end());
    return reservation;
}

}  // namespace

std::optional<Time> expected_end(const Cluster& cluster, const Attempt& attempt, Time now) {
    const Run& run = cluster.runs.at(attempt.id.run);
    if (attempt.state == AttemptState::stopping) return now + run.spec.stop_grace;
    std::optional<Time> end;
    if (run.spec.wall_time_limit)
        end = wall_time_end(run).value_or(now + *run.spec.wall_time_limit);  // it counts from the start
    const auto progress = end_by_progress(cluster, attempt);
    if (progress && *progress > now && (!end || *progress < *end)) end = progress;
    const bool goes = attempt.request && attempt.request->deadline && attempt.request->reason >= RequestReason::drain;
    if (goes && (!end || *attempt.request->deadline < *end)) end = attempt.request->deadline;
    if (end && *end < now) end = now;
    return end;
}

Reservation reserve(const Cluster& cluster, ClusterIndex& index, std::uint32_t shape, Time now, ReservationMask open,
                    std::optional<Time> sooner_than) {
    const GangRequest& gang = index.shape(shape).gang;
    const UniformGang* known = index.uniform(shape, open);
    if (known != nullptr && index.free_slots().verdict(*known) == Verdict::infeasible) return {};
    Future future(index, shape, open);
    const bool simple = placing::one_shape(placing::wanted_of(gang)) && gang.placed.empty() && !gang.topology_label;
    Releases releases(cluster, now);
    Time from = now;
    for (bool first = true;; first = false) {
        const Release* next = releases.next();
        const bool boundary = first || next == nullptr || std::max(next->end, now) != from || from == unknown_end;
        if (boundary && (!simple || future.enough())) {
            const Seats seats = future.seats();
            if (!seats.empty()) return reserved(seats, from == unknown_end ? Time{} : from);
        }
        if (next == nullptr || (sooner_than && std::max(next->end, now) >= *sooner_than)) return {};
        future.release(next->attempt);
        from = std::max(next->end, now);
        releases.pass();
    }
}

}  // namespace rtrain::core
