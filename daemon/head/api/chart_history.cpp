// Handlers for charts: a metric of a run, and the usage of the cluster, nodes and ranks. A thread beside the loop makes
// the answers (history/chart_history.hpp).
#include "daemon/head/history/chart_history.hpp"

#include "base/json_text.hpp"
#include "daemon/head/api/handlers.hpp"
#include "daemon/head/base/number_ranges.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "storage/history/limits.hpp"

namespace rtrain::head {
namespace {

// Bounds of one answer about all ranks: the number of ranks, and of points of all ranks together. They make about 4 MiB
// of text.
constexpr std::size_t ranks_most = 1'024;
constexpr std::uint64_t ranks_points_most = 131'072;

// Reads the window of a chart from the query. `units_per_one`: number of units of the subject's positions per unit of
// `from` and `to`.
Result<history::Window> window_of(const Exchange& exchange, std::uint64_t units_per_one) {
    std::uint64_t from = 0, to = 0, points = history::points_default;
    for (const auto& [name, value] : {std::pair{"from", &from}, {"to", &to}, {"points", &points}})
        if (const std::string text = exchange.query(name); !text.empty() && !to_number(text, *value))
            return Error{ErrorCode::usage, std::string(name) + " is not a whole number", "see docs/http-api.md"};
    if (points == 0 || points > history::points_most)
        return Error{ErrorCode::usage, "points is 1 to " + std::to_string(history::points_most),
                     "see docs/http-api.md"};
    if (to != 0 && to < from) return Error{ErrorCode::usage, "to lies before from", "see docs/http-api.md"};
    return history::Window{.first = from / units_per_one, .last = to / units_per_one, .points = points};
}

// Returns the members that name the answer's subject, as JSON text without braces.
std::string head_of(const Exchange& exchange, json about) {
    about["schema_version"] = 1;
    if (const std::string key = exchange.query("key"); !key.empty()) about["key"] = key;
    const std::string text = json_text(about);
    return text.substr(1, text.size() - 2);
}

ChartHistory::Then reply_to(const Exchange& exchange) {
    return [kept = exchange](Result<std::string> text) mutable {
        if (!text) return refuse(kept, text.error());
        reply(kept, 200, std::move(*text));
    };
}

// Returns the largest number of ranks that an attempt of the run had.
std::size_t most_ranks(const Exchange& exchange, const Run& run) {
    std::size_t most = 0;
    for (const Attempt* attempt : attempts_of(exchange.view.cluster, run.id))
        most = std::max(most, attempt->workers.size());
    return most;
}

void refuse_busy(Exchange& exchange) {
    refuse(exchange, {ErrorCode::unreachable, "too many wait for charts already", "ask again in some seconds"});
}

void answer_usage(Exchange& exchange, ChartHistory& charts, const std::string& subject, json about) {
    const auto window = window_of(exchange, 1'000);
    if (!window) return refuse(exchange, window.error());
    ChartHistory::Question question{.subject = subject,
                                    .key = exchange.query("key"),
                                    .window = *window,
                                    .head = head_of(exchange, std::move(about))};
    if (!charts.of_usage(std::move(question), reply_to(exchange))) refuse_busy(exchange);
}

}  // namespace

void get_run_history(Exchange& exchange, ChartHistory& charts) {
    with_run(exchange, [&](const Run& run) {
        const auto window = window_of(exchange, 1);
        if (!window) return refuse(exchange, window.error());
        ChartHistory::Question question{.subject = {},
                                        .key = exchange.query("key"),
                                        .window = *window,
                                        .head = head_of(exchange, {{"run_id", exchange.view.run_id(run.id)}})};
        // The answer waits until all received reports are written, so that it includes them.
        exchange.durability.once_written(
            [kept = exchange, &charts, id = run.id, question = std::move(question)]() mutable {
                if (!charts.of_run(id, std::move(question), reply_to(kept))) refuse_busy(kept);
            });
    });
}

void get_ranks_history(Exchange& exchange, ChartHistory& charts) {
    with_run(exchange, [&](const Run& run) {
        auto window = window_of(exchange, 1'000);
        if (!window) return refuse(exchange, window.error());
        if (exchange.query("key").empty())
            return refuse(exchange, {ErrorCode::usage, "key is missing: it names what to read of each rank",
                                     "the keys of one rank: GET /v1/runs/{run}/ranks/{rank}/history"});
        const auto ranks = static_cast<std::uint32_t>(std::min(ranks_most, most_ranks(exchange, run)));
        window->points = std::min(window->points, ranks_points_most / std::max(1u, ranks));
        ChartHistory::Question question{.subject = {},
                                        .key = exchange.query("key"),
                                        .window = *window,
                                        .head = head_of(exchange, {{"run_id", exchange.view.run_id(run.id)}})};
        if (!charts.of_ranks(run.id, ranks, std::move(question), reply_to(exchange))) refuse_busy(exchange);
    });
}

void get_rank_history(Exchange& exchange, ChartHistory& charts) {
    with_run(exchange, [&](const Run& run) {
        std::uint64_t rank = 0;
        const std::string text = exchange.variables["rank"];
        const std::size_t world = most_ranks(exchange, run);
        if (!to_number(text, rank) || rank >= world)
            return refuse(exchange, {ErrorCode::not_found,
                                     "there is no such rank: the run had at most " + std::to_string(world) + " workers",
                                     "rtrain describe RUN"});
        answer_usage(exchange, charts, history_of_rank(run.id, static_cast<std::uint32_t>(rank)),
                     {{"run_id", exchange.view.run_id(run.id)}, {"rank", rank}});
    });
}

void get_node_history(Exchange& exchange, ChartHistory& charts) {
    const std::string node = exchange.variables["node"];
    if (!exchange.view.cluster.nodes.contains(NodeId{node}))
        return refuse(exchange, {ErrorCode::not_found, "no node is called '" + node + "'", "rtrain nodes"});
    answer_usage(exchange, charts, history_of_node(node), {{"node", node}});
}

void get_status_history(Exchange& exchange, ChartHistory& charts) {
    answer_usage(exchange, charts, history_of_cluster, json::object());
}

}  // namespace rtrain::head
