// Compares the cluster index and its index of free slots with a recount of the records. `invariants` calls it after
// every event of a simulation or a test.
#include <algorithm>

#include "scheduler/index/cluster.hpp"

namespace rtrain {
namespace {

bool nothing(const Amount& amount) { return amount.ticks == 0; }

Resources without_zeros(Resources resources) {
    std::erase_if(resources, [](const auto& entry) { return nothing(entry.second); });
    return resources;
}

std::vector<Amount> without_zeros(std::vector<Amount> devices) {
    while (!devices.empty() && nothing(devices.back())) devices.pop_back();
    return devices;
}

// Replaces bits by the runs of their reservations. Bits are assigned in the order of reservation, which a recount does
// not have.
using HoldsByRun = std::pair<std::vector<NodeHold>, std::map<std::set<RunId>, Held>>;
std::vector<HoldsByRun> without_bits(const std::vector<NodeHolds>& all) {
    std::vector<HoldsByRun> out;
    for (const NodeHolds& holds : all) {
        auto& [seats, released] = out.emplace_back(holds.seats, std::map<std::set<RunId>, Held>{});
        for (const auto& [mask, held] : holds.released) {
            std::set<RunId> runs;
            for (const NodeHold& hold : holds.seats)
                if ((hold.bit & mask) != 0) runs.insert(hold.run);
            released.emplace(std::move(runs), held);
        }
        for (NodeHold& hold : seats) hold.bit = 0;
    }
    return out;
}

}  // namespace

std::map<std::string, Sums> ClusterIndex::in_use_now() const {
    std::map<std::string, Sums> in_use = in_use_;
    std::erase_if(in_use, [](const auto& entry) { return entry.second.empty(); });
    return in_use;
}

// Returns the waiting runs as text. Shapes are written as their requests, because their numbers depend on the order of
// arrival.
std::vector<std::string> ClusterIndex::waiting_text() const {
    std::vector<std::string> lines;
    for (const auto& [line, batches] : waiting_)
        for (const auto& [shape, batch] : batches) {
            std::string text = std::to_string(line.priority) + " " + line.queue + " " + line.user + " " +
                               shape_keys_[shape] + " x" + std::to_string(shapes_[shape].waiting) + ":";
            for (const Waiter& waiter : batch.by_age)
                text += " " + std::to_string(waiter.submitted.ms) + "ms " + std::to_string(waiter.id.value);
            text += " /";
            for (const auto& [length, id] : batch.by_length)
                text += " " + std::to_string(length.ms) + "ms " + std::to_string(id.value);
            lines.push_back(std::move(text));
        }
    std::sort(lines.begin(), lines.end());
    return lines;
}

void ClusterIndex::compare_nodes(const Cluster& cluster, const ClusterIndex& recount,
                                 std::vector<std::string>& wrong) const {
    const auto blame = [&wrong](const NodeId& id, const std::string& what) {
        wrong.push_back("cluster index: " + what + " of node " + id.value + " differ from a recount");
    };
    if (views_.size() != recount.views_.size())
        return wrong.push_back("cluster index: the nodes differ from a recount");
    const std::vector<NodeView> naive = node_views(cluster);  // This code shares nothing with the deltas.
    for (std::size_t i = 0; i < views_.size(); ++i) {
        const NodeView& view = views_[i];
        if (view != recount.views_[i]) blame(view.id, "free amounts");
        if (view.free != without_zeros(naive[i].free) || view.gpus_free != naive[i].gpus_free ||
            view.zero_bundles != naive[i].zero_bundles)
            blame(view.id, "free amounts, counted by attempt,");
        const NodeView* indexed = free_slots_.find(view.id);
        if (indexed == nullptr || *indexed != view) blame(view.id, "free amounts in the index");
        if (on_node(view.id) != recount.on_node(view.id)) blame(view.id, "attempts");
    }
    for (const auto& [id, standing] : standing_) {
        const auto entry = recount.standing_.find(id);
        const Standing none{};
        const Standing& other = entry == recount.standing_.end() ? none : entry->second;
        if (standing.used != other.used || without_zeros(standing.gpus_used) != without_zeros(other.gpus_used))
            blame(id, "held amounts");
    }
}

std::vector<std::string> ClusterIndex::faults(const Cluster& cluster) const {
    std::vector<std::string> wrong = free_slots_.faults();
    ClusterIndex recount;
    recount.catch_up(cluster);
    const auto expect = [&wrong](bool holds, const std::string& what) {
        if (!holds) wrong.push_back("cluster index: " + what + " differ from a recount");
    };
    compare_nodes(cluster, recount, wrong);
    const auto free_on_ready = [](const ClusterIndex& index) {
        auto free = index.free_;
        std::erase_if(free, [](const auto& entry) { return entry.second.ticks == 0; });
        return free;
    };
    expect(reserved_.seats() == recount.reserved_.seats(), "seats reserved for runs");
    expect(without_bits(holds_) == without_bits(recount.holds_), "what reservations hold of the nodes");
    expect(ends_ == recount.ends_ && restless_ == recount.restless_, "expected ends");
    expect(free_on_ready(*this) == free_on_ready(recount), "free amounts of all ready nodes");
    expect(totals_ == recount.totals_, "totals");
    expect(in_use_now() == recount.in_use_now(), "what queues hold");
    expect(user_holds_ == recount.user_holds_, "what users hold in queues");
    expect(live_attempts_ == recount.live_attempts_, "live attempts");
    expect(waiting_text() == recount.waiting_text(), "waiting runs");
    expect(fresh_ == recount.fresh_ && reserving_ == recount.reserving_, "runs that are fresh, or reserve,");
    expect(live_names_ == recount.live_names_ && submitted_ == recount.submitted_, "names or keys of submission");
    expect(limits_ == recount.limits_ && retries_ == recount.retries_ && reservations_ == recount.reservations_ &&
               growths_ == recount.growths_ && starves_ == recount.starves_,
           "times of runs");
    expect(request_deadlines_ == recount.request_deadlines_ && drained_ == recount.drained_, "deadlines");
    expect(elastic_ == recount.elastic_, "elastic runs");
    expect(waiting_of_ == recount.waiting_of_, "waiting runs of programs");
    expect(dependents_ == recount.dependents_ && array_waiting_ == recount.array_waiting_, "runs that wait for others");
    for (Shape shape : shapes_)
        for (const auto& [open, ignored] : std::map(shape.full))
            expect(!still_full(shape, open) || rtrain::place(nodes(open), shape.gang).verdict != Verdict::feasible_now,
                   "gangs that found no room");
    expect(awaited_ == recount.awaited_, "awaited nodes");
    for (const auto& [shape, could] : ever_) {
        if (awaits_nodes()) break;
        const auto known = recount.shape_numbers_.find(shape_keys_[shape]);
        expect(known == recount.shape_numbers_.end() || recount.ever(known->second) == could,
               "verdicts on the empty cluster");
    }
    return wrong;
}

}  // namespace rtrain
