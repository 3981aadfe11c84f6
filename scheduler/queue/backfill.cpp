// See backfill.hpp.
#include "scheduler/queue/backfill.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>

#include "scheduler/model/derived.hpp"
#include "scheduler/placement/room.hpp"

namespace rtrain::core {
namespace {

// Yields the attempts in the order of their expected ends. The cluster index stores the attempts whose end does not
// move with time. The others are merged in.
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

// The nodes as they would be after some attempts have released their resources. If the index of free slots has the
// gang's shape, only the nodes of these attempts are recomputed.
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
            if (placing::allowed(index.nodes()[i], gang_)) touch(i);
    }
    void release(AttemptId id) {
        for (const auto& [node, allocated] : index_.allocated_to(id)) {
            const std::size_t i = index_.place_of(node);
            if (i == index_.nodes().size() || !placing::allowed(index_.nodes()[i], gang_)) continue;
            Then& then = touch(i);
            give_back(then, id, allocated);
            then.attempts.push_back(id);
            recount(then);
        }
    }
    // Returns true if the gang fits by the number of slots. The answer is exact if all bundles are equal. Otherwise the
    // first bundle stands for all of them, and `seats` makes the final check.
    bool enough() const {
        const std::uint64_t wanted = gang_.bundles.size();
        return limits_[static_cast<std::size_t>(gang_.strategy)] >= wanted;
    }
    Seats seats() const {
        std::vector<NodeView> nodes;
        for (const Then& then : touched_)
            if (known_ == nullptr || then.slots > 0) nodes.push_back(with(then.node, room_of(then)));
        if (known_ != nullptr)
            for (const NodeView* node : index_.free_slots().with_room(*known_)) {
                const std::size_t place = index_.place_of(node->id);
                if (touched_at_[place] != untouched) continue;
                const ReservationMask closed = index_.mask_of(place) & ~open_;
                nodes.push_back(closed == 0 ? *node : with(*node, room_behind(*node, index_.holds_on(place), closed)));
            }
        std::sort(nodes.begin(), nodes.end(), [](const NodeView& a, const NodeView& b) { return a.id < b.id; });
        return place(nodes, gang_).seats;
    }
    // Returns the released attempts that the seats need: without one of them, some amount would be missing. Attempts
    // that end early are dropped from the list first.
    std::vector<AttemptId> needed_for(const Seats& seats) {
        // key: place of the node in the cluster index; value: the demand of the seats there
        std::map<std::size_t, Held> wanted;
        for (std::size_t rank = 0; rank < seats.size(); ++rank)
            add(wanted[index_.place_of(seats[rank].node)], gang_.bundles[rank].demand, seats[rank].gpus);
        std::set<AttemptId> needed;
        for (const auto& [place, held] : wanted) {
            if (touched_at_[place] == untouched) continue;
            Then& then = touched_[touched_at_[place]];
            for (const AttemptId id : then.attempts) {
                if (needed.contains(id)) continue;
                const Then before = then;
                take_again(then, id);
                if (holds(room_of(then), held)) continue;
                then = before;
                needed.insert(id);
            }
        }
        return {needed.begin(), needed.end()};
    }

  private:
    struct Then {
        std::size_t place = 0;  // place of the node in the cluster index
        NodeView node;          // its free amounts include those of the released attempts
        NodeHolds holds;
        std::uint32_t slots = 0;
        std::vector<AttemptId> attempts;  // attempts on this node that have been released, in the order of their ends
    };
    using Allocated = ClusterIndex::AllocatedOn::mapped_type;
    static constexpr std::size_t untouched = SIZE_MAX;
    static NodeView with(const NodeView& node, OpenRoom room) {
        NodeView view = node;
        view.free = std::move(room.free);
        view.gpus_free = std::move(room.gpus);
        return view;
    }
    static bool holds(const OpenRoom& room, const Held& wanted) {
        bool devices = wanted.gpus.size() <= room.gpus.size();
        for (std::size_t device = 0; devices && device < wanted.gpus.size(); ++device)
            devices = wanted.gpus[device] <= room.gpus[device];
        return devices && std::all_of(wanted.amounts.begin(), wanted.amounts.end(), [&](const auto& entry) {
                   return entry.second <= amount_of(room.free, entry.first);
               });
    }
    OpenRoom room_of(const Then& then) const {
        const ReservationMask closed = index_.mask_of(then.place) & ~open_;
        return closed == 0 ? OpenRoom{.free = then.node.free, .gpus = then.node.gpus_free}
                           : room_behind(then.node, then.holds, closed);
    }
    Then& touch(std::size_t i) {
        if (touched_at_[i] != untouched) return touched_[touched_at_[i]];
        touched_at_[i] = touched_.size();
        Then& then = touched_.emplace_back(
            Then{.place = i, .node = index_.nodes()[i], .holds = index_.holds_on(i), .attempts = {}});
        if (known_ != nullptr)
            then.slots = slots_of(then);  // `limits_` already includes the slots of this node
        else
            recount(then);
        return then;
    }
    // Adds the amounts of an attempt to the node's free amounts. A reservation that expects the attempt to end has
    // counted its amounts already.
    void give_back(Then& then, AttemptId id, const Allocated& allocated) const {
        const auto& [amounts, shares] = allocated;
        for (const auto& [name, amount] : amounts) {
            const Amount total = amount_of(then.node.total, name);
            if (name == gpu_key || total.ticks == 0 || amount.ticks == 0) continue;
            Amount& free = then.node.free[name];
            free = std::min(total, free + amount);
        }
        for (const GpuShare& share : shares)
            if (share.device < then.node.gpus_free.size())
                then.node.gpus_free[share.device] =
                    std::min(units(1), then.node.gpus_free[share.device] + share.amount);
        then.holds.release(index_.ends_before(id, then.place), amounts, shares);
    }
    void take_again(Then& then, AttemptId id) const {
        const auto& [amounts, shares] = index_.allocated_to(id).at(then.node.id);
        Held free{.amounts = std::move(then.node.free), .gpus = std::move(then.node.gpus_free)};
        const std::size_t devices = free.gpus.size();
        subtract(free, amounts, shares);
        free.gpus.resize(devices);
        then.node.free = std::move(free.amounts);
        then.node.gpus_free = std::move(free.gpus);
        then.holds.expect(index_.ends_before(id, then.place), amounts, shares);
    }
    std::uint32_t slots_of(const Then& then) const {
        const Bundle& bundle = gang_.bundles.front();
        if (!matches(bundle.selector, then.node.labels)) return 0;
        const OpenRoom room = room_of(then);
        return placing::slots(room.free, room.gpus, bundle.demand, UINT32_MAX);
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
    std::vector<std::size_t> touched_at_;  // key: place of a node in the cluster index; value: its place in `touched_`
};

Reservation reserved(Future& future, Seats seats, Time from, Promise promise) {
    const bool unknown = promise == Promise::none || from == unknown_end;
    Reservation reservation{.seats = {}, .nodes = {}, .from = unknown ? Time{} : from, .after = {}};
    for (const Seat& seat : seats) reservation.nodes.push_back(seat.node);
    std::sort(reservation.nodes.begin(), reservation.nodes.end());
    reservation.nodes.erase(std::unique(reservation.nodes.begin(), reservation.nodes.end()), reservation.nodes.end());
    if (unknown) reservation.after = future.needed_for(seats);
    reservation.seats = std::move(seats);
    return reservation;
}

}  // namespace

bool passes(const Begin& begin, const Run& run, std::optional<Duration> limit, Time now) {
    if (limit && begin.from.ms != 0 && now + *limit <= begin.from) return true;
    return run.program.empty() ? begin.drivers.contains(run.id) : begin.programs.contains(run.program);
}

Begin begin_of(const Cluster& cluster, const Run& waiting) {
    // program_of() names a program by its driver's run with this prefix: "run-17"
    constexpr std::string_view driver = "run-";
    Begin begin{.from = waiting.reserved_from, .programs = programs_awaited(cluster, waiting)};
    for (const std::string& program : begin.programs) {
        RunId run;
        const bool named = program.starts_with(driver);
        if (named && std::from_chars(program.data() + driver.size(), program.data() + program.size(), run.value).ec ==
                         std::errc{})
            begin.drivers.insert(run);
    }
    return begin;
}

ReservationMask closed_to(const Cluster& cluster, const Run& run, Time now) {
    ReservationMask closed = 0;
    for (const RunId id : cluster.index.reserving()) {
        const Run& other = cluster.runs.at(id);
        const Begin begin = begin_of(cluster, other);
        if (id != run.id && other.spec.priority >= run.spec.priority &&
            !passes(begin, run, time_left(cluster, run, now), now))
            closed |= cluster.index.reserved().bit_of(id);
    }
    return closed;
}

Reservation reserve(const Cluster& cluster, ClusterIndex& index, std::uint32_t shape, Time now, ReservationMask open,
                    std::optional<Time> sooner_than, Promise promise) {
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
            Seats seats = future.seats();
            if (!seats.empty()) return reserved(future, std::move(seats), from, promise);
        }
        if (next == nullptr || (sooner_than && std::max(next->end, now) >= *sooner_than)) return {};
        future.release(next->attempt);
        from = std::max(next->end, now);
        releases.pass();
    }
}

}  // namespace rtrain::core
