// Answers which run held which GPUs of which nodes in a span of time: the attempts' placements. The records are read in
// slices of the loop, so that a cluster with many runs delays nothing else.
#include <charconv>
#include <memory>
#include <set>

#include "base/json_text.hpp"
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/base/number_ranges.hpp"
#include "daemon/head/loop/slices.hpp"
#include "daemon/head/requests/pages_json.hpp"

namespace rtrain::head {
namespace {

// The most attempts of one answer, since a chart with more bars would be a grey area. The text of so many attempts
// stays below `timeline_bytes_most`, unless they have hundreds of nodes each.
constexpr std::size_t timeline_attempts_most = 2'000;
constexpr std::size_t timeline_bytes_most = 4u << 20;
constexpr std::size_t timeline_nodes_most = 100;  // the most nodes in the query

using DevicesOfNodes = std::map<NodeId, std::set<std::uint32_t>>;

DevicesOfNodes devices_of(const Attempt& attempt, const std::set<std::string>& wanted) {
    DevicesOfNodes out;
    for (const Worker& worker : attempt.workers) {
        if (!wanted.empty() && !wanted.contains(worker.seat.node.value)) continue;
        auto& devices = out[worker.seat.node];
        for (const GpuShare& share : worker.seat.gpus) devices.insert(share.device);
    }
    return out;
}

json attempt_json(const View& view, const Run& run, const Attempt& attempt, const DevicesOfNodes& nodes) {
    json places = json::array();
    for (const auto& [node, devices] : nodes) places.push_back({{"node", node.value}, {"gpus", devices}});
    return {{"run_id", view.run_id(run.id)},
            {"name", run.name},
            {"user", run.user},
            {"state", to_text(run.state)},
            {"attempt", attempt.id.number},
            {"attempt_state", to_text(attempt.state)},
            {"placed", time_json(view, attempt.placed_at)},
            {"ended", terminal(attempt.state) ? time_json(view, attempt.ended_at) : json()},
            {"nodes", std::move(places)}};
}

struct Timeline {
    Exchange exchange;
    // begin and end of the period in the query; wall clock, in milliseconds since 1970 (UTC)
    std::int64_t from_ms = 0, until_ms = 0;
    std::set<std::string> nodes{};  // names of the nodes whose devices are shown; empty: all nodes
    std::optional<RunId> last{};
    std::string items{};
    std::size_t count = 0;

    bool full() const { return count >= timeline_attempts_most || items.size() >= timeline_bytes_most; }
    bool held_in_span(const Attempt& attempt) const {
        if (attempt.placed_at.ms == 0) return false;
        const View& view = exchange.view;
        const Time end = terminal(attempt.state) ? attempt.ended_at : view.clock.now();
        return view.clock.to_wall(attempt.placed_at) < until_ms && view.clock.to_wall(end) > from_ms;
    }
    void add(const Run& run) {
        for (const Attempt* attempt : attempts_of(exchange.view.cluster, run.id)) {
            if (full() || !held_in_span(*attempt)) continue;
            const DevicesOfNodes devices = devices_of(*attempt, nodes);
            if (devices.empty()) continue;
            items += (count++ == 0 ? "" : ",") + json_text(attempt_json(exchange.view, run, *attempt, devices));
        }
    }
    // Adds the attempts of the next run; the newest run is the first. Returns false after the oldest run, or if the
    // answer is full.
    bool step() {
        const auto& runs = exchange.view.cluster.runs;
        auto at = last ? runs.lower_bound(*last) : runs.end();
        if (full() || at == runs.begin()) return false;
        --at;
        last = at->first;
        const Run& run = at->second;
        const bool before = terminal(run.state) && run.ended_wall_ms < from_ms;
        if (!before && run.submitted_wall_ms < until_ms) add(run);
        return true;
    }
    void answer() {
        reply(exchange, 200,
              "{\"schema_version\":1,\"items\":[" + items + "],\"whole\":" + (full() ? "false" : "true") + "}");
    }
};

bool to_wall_ms(const std::string& text, std::int64_t& ms) {
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), ms);
    return failed == std::errc{} && end == text.data() + text.size() && ms >= 0;
}

}  // namespace

void get_timeline(Exchange& exchange) {
    const auto timeline = std::make_shared<Timeline>(Timeline{.exchange = exchange});
    if (!to_wall_ms(exchange.query("from_ms"), timeline->from_ms) ||
        !to_wall_ms(exchange.query("until_ms"), timeline->until_ms) || timeline->from_ms >= timeline->until_ms)
        return refuse(exchange, {ErrorCode::usage, "from_ms and until_ms are milliseconds since 1970, in this order",
                                 "see docs/http-api.md"});
    if (const std::string names = exchange.query("node"); !names.empty())
        for (const std::string& name : split(names)) timeline->nodes.insert(name);
    if (timeline->nodes.size() > timeline_nodes_most)
        return refuse(exchange, {ErrorCode::usage,
                                 "node has " + std::to_string(timeline->nodes.size()) + " names; it takes at most " +
                                     std::to_string(timeline_nodes_most),
                                 "leave it out for all nodes"});
    in_slices(exchange.background, [timeline] {
        if (timeline->step()) return true;
        timeline->answer();
        return false;
    });
}

}  // namespace rtrain::head
