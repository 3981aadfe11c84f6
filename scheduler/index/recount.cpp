// Compares the cluster index and its index of free slots with a recount of the records. `invariants` calls it after
// every event of a simulation or a test.
#include <algorithm>

#include "scheduler/index/cluster.hpp"

namespace rtrain {
namespace {

std::map<std::string, Sums> without_empty(std::map<std::string, Sums> in_use) {
    std::erase_if(in_use, [](const auto& entry) { return entry.second.empty(); });
    return in_use;
}

}  // namespace

// Returns the waiting runs as text. Shapes are written as their requests, because their numbers depend on the order of
// arrival.
std::vector<std::string> ClusterIndex::waiting_text() const {
    std::vector<std::string> lines;
    for (const auto& [line, batches] : waiting())
        for (const auto& [shape, batch] : batches) {
            std::string text = (line.yields ? "yields " : "") + std::to_string(line.priority) + " " + line.queue + " " +
                               line.user + " " + shapes_.key(shape) + " x" + std::to_string(shapes_[shape].waiting) +
                               ":";
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

std::vector<std::string> ClusterIndex::faults(const Cluster& cluster) const {
    std::vector<std::string> wrong = nodes_.free_slots().faults();
    ClusterIndex recount;
    recount.catch_up(cluster);
    const auto expect = [&wrong](bool holds, const std::string& what) {
        if (!holds) wrong.push_back("cluster index: " + what + " differ from a recount");
    };
    // node_views() shares no code with the deltas.
    for (const std::string& what : nodes_.differences(recount.nodes_, node_views(cluster))) expect(false, what);
    expect(reserved().seats() == recount.reserved().seats(), "seats reserved for runs");
    expect(ends_ == recount.ends_, "expected ends");
    expect(without_empty(in_use()) == without_empty(recount.in_use()), "what queues hold");
    expect(user_holds() == recount.user_holds(), "what users hold in queues");
    expect(live_attempts() == recount.live_attempts(), "live attempts");
    expect(waiting_text() == recount.waiting_text(), "waiting runs");
    expect(waiting_.has_equal_sets(recount.waiting_), "runs that are fresh, or reserve,");
    expect(names_ == recount.names_, "names or keys of submission");
    expect(times_ == recount.times_, "times of runs");
    expect(requests_ == recount.requests_ && drains_ == recount.drains_, "deadlines");
    expect(elastic() == recount.elastic(), "elastic runs");
    expect(waiting_.has_equal_programs(recount.waiting_), "waiting runs of programs");
    expect(links_.has_equal_waits(recount.links_), "runs that wait for others");
    expect(links_.has_equal_helpers(recount.links_), "helpers of runs, or yielding runs,");
    for (Shape shape : shapes_.all())
        for (const auto& [open, ignored] : std::map(shape.full))
            expect(!GangSearch::still_full(shape, nodes_, open) ||
                       rtrain::place(nodes(open), shape.gang).verdict != Verdict::feasible_now,
                   "gangs that found no room");
    for (const auto& [shape, could] : search_.known_ever()) {
        if (awaits_nodes()) break;
        const auto known = recount.shapes_.find(shapes_.key(shape));
        expect(!known || recount.ever(*known) == could, "verdicts on the empty cluster");
    }
    return wrong;
}

}  // namespace rtrain
