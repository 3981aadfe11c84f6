// See backfill.hpp.
#include "scheduler/backfill.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "scheduler/machine.hpp"
#include "scheduler/placement_room.hpp"

namespace rtrain::core {
namespace {

constexpr Time unknown{INT64_MAX};

// The last checkpoint says how far the run is on its way to `stop: {epoch: 20}`; it goes on at the pace it had.
std::optional<Time> end_by_progress(const Cluster& cluster, const Run& run) {
    const Checkpoint* latest = latest_checkpoint(cluster, run.id);
    if (latest == nullptr || run.started.ms == 0 || latest->committed <= run.started) return std::nullopt;
    const auto passed = static_cast<double>((latest->committed - run.started).ms);
    std::optional<Time> end;
    for (const auto& [key, target] : run.spec.stop_at) {
        const auto reached = latest->metrics.find(key);
        if (reached == latest->metrics.end() || reached->second <= 0 || target <= reached->second) continue;
        const double left = (target - reached->second) / reached->second * passed;
        if (!(left < 1e15)) continue;
        const Time at = latest->committed + Duration{static_cast<std::int64_t>(std::llround(left))};
        if (!end || at < *end) end = at;
    }
    return end;
}

struct Release {
    Time end;
    Time placed;
    AttemptId attempt;
    auto operator<=>(const Release&) const = default;
};

std::vector<Release> releases(const Cluster& cluster, Time now) {
    std::vector<Release> order;
    for (const AttemptId id : cluster.ledger.live_attempts()) {
        const Attempt& attempt = cluster.attempts.at(id);
        order.push_back(
            {.end = expected_end(cluster, attempt, now).value_or(unknown), .placed = attempt.placed_at, .attempt = id});
    }
    std::sort(order.begin(), order.end());
    return order;
}

// The nodes as they will be after some of the releases.
class Future {
  public:
    Future(const Cluster& cluster, const GangRequest& gang) : cluster_(cluster), gang_(gang) {
        for (const NodeView& node : cluster.ledger.nodes())
            if (placing::allowed(node, gang)) nodes_.push_back(node);
        for (std::size_t i = 0; i < nodes_.size(); ++i) at_[nodes_[i].id] = i;
        counted_.resize(nodes_.size());
        for (std::size_t i = 0; i < nodes_.size(); ++i) recount(i);
    }
    void release(AttemptId id) {
        const Run& run = cluster_.runs.at(id.run);
        std::set<std::size_t> touched;
        const auto& workers = cluster_.attempts.at(id).workers;
        for (std::size_t rank = 0; rank < workers.size(); ++rank) {
            const auto found = at_.find(workers[rank].seat.node);
            if (found == at_.end()) continue;
            give_back(nodes_[found->second], demand_of(run, rank), workers[rank].seat.gpus);
            touched.insert(found->second);
        }
        for (const std::size_t i : touched) recount(i);
    }
    bool enough() const {
        const auto wanted = gang_.bundles.size();
        switch (gang_.strategy) {
            case Strategy::pack:
            case Strategy::spread:
                return sum_ >= wanted;
            case Strategy::strict_pack:
                return whole_ > 0;
            case Strategy::strict_spread:
                return open_ >= wanted;
        }
        return false;
    }
    Seats seats() const { return place(nodes_, gang_).seats; }

  private:
    static void give_back(NodeView& node, const Resources& demand, const std::vector<GpuShare>& shares) {
        for (const auto& [name, amount] : demand) {
            const Amount total = amount_of(node.total, name);
            if (name == gpu_key || total.ticks == 0 || amount.ticks == 0) continue;
            Amount& free = node.free[name];
            free = std::min(total, free + amount);
        }
        for (const GpuShare& share : shares)
            if (share.device < node.gpus_free.size())
                node.gpus_free[share.device] = std::min(units(1), node.gpus_free[share.device] + share.amount);
    }
    // Exact for gangs of one shape; for others the first bundle stands for all, and `seats` has the last word.
    void recount(std::size_t i) {
        const Bundle& bundle = gang_.bundles.front();
        const auto wanted = static_cast<std::uint32_t>(gang_.bundles.size());
        const std::uint32_t now = matches(bundle.selector, nodes_[i].labels)
                                      ? placing::slots(nodes_[i].free, nodes_[i].gpus_free, bundle.demand, wanted)
                                      : 0;
        sum_ = sum_ + now - counted_[i];
        open_ = open_ + (now > 0 ? 1 : 0) - (counted_[i] > 0 ? 1 : 0);
        whole_ = whole_ + (now >= wanted ? 1 : 0) - (counted_[i] >= wanted ? 1 : 0);
        counted_[i] = now;
    }

    const Cluster& cluster_;
    const GangRequest& gang_;
    std::vector<NodeView> nodes_;
    std::map<NodeId, std::size_t> at_;
    std::vector<std::uint32_t> counted_;
    std::uint64_t sum_ = 0, open_ = 0, whole_ = 0;
};

Reservation reserved(const Seats& seats, Time from) {
    Reservation made{.nodes = {}, .from = from};
    for (const Seat& seat : seats) made.nodes.push_back(seat.node);
    std::sort(made.nodes.begin(), made.nodes.end());
    made.nodes.erase(std::unique(made.nodes.begin(), made.nodes.end()), made.nodes.end());
    return made;
}

}  // namespace

std::optional<Time> expected_end(const Cluster& cluster, const Attempt& attempt, Time now) {
    const Run& run = cluster.runs.at(attempt.id.run);
    if (attempt.state == AttemptState::stopping) return now + run.spec.stop_grace;
    std::optional<Time> end;
    if (run.spec.wall_time_limit) {
        const Time since = run.started.ms == 0 ? now : run.started;  // the limit counts from the start
        end = since + *run.spec.wall_time_limit;
    }
    const auto progress = end_by_progress(cluster, run);
    if (progress && *progress > now && (!end || *progress < *end)) end = progress;
    const bool goes = attempt.ask && attempt.ask->deadline && attempt.ask->reason >= AskReason::drain;
    if (goes && (!end || *attempt.ask->deadline < *end)) end = attempt.ask->deadline;
    if (end && *end < now) end = now;
    return end;
}

Reservation reserve(const Cluster& cluster, const GangRequest& gang, Time now) {
    Future future(cluster, gang);
    const bool simple = placing::one_shape(placing::wanted_of(gang)) && gang.placed.empty() && !gang.topology_label;
    const auto order = releases(cluster, now);
    Time from = now;
    for (std::size_t next = 0;; ++next) {
        const bool boundary = next == order.size() || order[next].end != from || next == 0 || from == unknown;
        if (boundary && (simple ? future.enough() : true)) {
            const Seats seats = future.seats();
            if (!seats.empty()) return reserved(seats, from == unknown ? Time{} : from);
        }
        if (next == order.size()) return {};
        future.release(order[next].attempt);
        from = order[next].end;
    }
}

}  // namespace rtrain::core
