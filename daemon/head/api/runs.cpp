// Handlers that list runs or show one: attempts, checkpoints, explanations, the queue, the demand.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/api/parents.hpp"
#include "daemon/head/loop/planner.hpp"
#include "daemon/head/requests/job_output.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/head/sessions/sessions.hpp"
#include "daemon/head/view/explanation_json.hpp"
#include "scheduler/autoscale/demand.hpp"
#include "scheduler/explain/explain.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/queue/order.hpp"

namespace rtrain::head {
namespace {

bool among(const std::string& list, const std::string& word) {
    return list.empty() || ("," + list + ",").find("," + word + ",") != std::string::npos;
}

// Replaces the values of `env` by a placeholder. Only the run's user and admins may read them.
void hide_values(json& job) {
    if (!job.is_object() || !job.contains("env") || !job["env"].is_object()) return;
    for (auto& [name, value] : job["env"].items()) value = "(hidden)";
}

// Chooses the runs of a list. Without `all`, the list leaves out runs that ended more than a day ago.
constexpr std::int64_t recent_ms = 24LL * 3'600'000;
struct Filter {
    explicit Filter(const Exchange& exchange)
        : state(exchange.query("state")),
          user(exchange.query("user")),
          name(exchange.query("name")),
          parent(exchange.query("parent")),
          all(exchange.asked("all")) {}
    bool shows(const Run& run) const {
        if (!among(state, to_text(run.state)) || !among(user, run.user)) return false;
        if (!among(name, run.name) && (run.array.empty() || !among(name, run.array))) return false;
        if (!parent.empty() && parent_of(run) != parent) return false;
        return all || !terminal(run.state) || wall_ms() - run.ended_wall_ms < recent_ms;
    }
    std::string state, user, name, parent;
    bool all = false;
};

// Returns the most important line of an explanation: the quota, the reservation, or the reason of most nodes.
std::string shortest_reason(const Explanation& why, const std::string& otherwise) {
    for (const Rule& rule : why.rules)
        if (rule.kind == RuleKind::refused || rule.kind == RuleKind::reservation) return rule.text;
    if (why.groups.empty()) return otherwise;
    const ReasonGroup& group = why.groups.front();
    return std::to_string(group.nodes) + (group.nodes == 1 ? " node " : " nodes ") + group.kind + ": " + group.text;
}

// Returns how each node of the newest attempt limits the memory of the run's workers: "cgroup", "watch", "off", or
// "unknown" if the agent does not send it. Returns null if the run has no limit.
json memory_limit_json(const View& view, const Sessions& sessions, const Run& run) {
    if (run.spec.gang.bundles.empty()) return nullptr;
    const std::int64_t bytes = amount_of(demand_of(run, 0), memory_key).ticks / Amount::per_unit;
    if (bytes == 0) return nullptr;
    std::set<std::string> enforced_by;
    const auto attempt = view.cluster.attempts.find({run.id, run.attempts});
    const auto nodes = attempt == view.cluster.attempts.end() ? std::vector<NodeId>{} : core::nodes_of(attempt->second);
    for (const NodeId& node : nodes)
        if (const NodeSeen* seen = sessions.seen(node.value); seen && seen->connected) {
            const auto fact = seen->facts.find("memory_limits");
            enforced_by.insert(fact == seen->facts.end() ? "unknown" : fact->second);
        }
    return {{"bytes_per_worker", bytes}, {"enforced_by", enforced_by}};
}

}  // namespace

void get_runs(Exchange& exchange) {
    const auto page = page_of(exchange);
    if (!page) return refuse(exchange, page.error());
    // The list begins with the newest run. Its cursor is the last id that was shown, so that runs submitted meanwhile
    // do not shift the pages.
    RunId behind{page->offset == 0 ? ~0ull : page->offset};
    reply_list(exchange, *page,
               [&view = exchange.view, caller = exchange.caller, filter = Filter(exchange), behind](
                   Listing& to, json& cursor) mutable {
                   auto run = view.cluster.runs.lower_bound(behind);
                   if (run == view.cluster.runs.begin()) return false;
                   if (to.full()) {
                       cursor = std::to_string(behind.value);
                       return false;
                   }
                   behind = (--run)->first;
                   if (filter.shows(run->second)) to.add(run_json(view, run->second, words_for(caller, run->second)));
                   return true;
               });
}

void get_run(Exchange& exchange, const Sessions& sessions) {
    with_run(exchange, [&](const Run& run) {
        json out = full_run_json(exchange.view, run, words_for(exchange.caller, run));
        if (!reads_job_words(exchange.caller, run)) hide_values(out["job"]);
        out["memory_limit"] = memory_limit_json(exchange.view, sessions, run);
        reply_json(exchange, 200, std::move(out));
    });
}

void get_attempts(Exchange& exchange) {
    const auto page = page_of(exchange);
    if (!page) return refuse(exchange, page.error());
    struct Place {  // the next item: position in the list of runs, and in the workers of the run's attempt
        AttemptId next;
        Attempt shown;
        std::uint32_t rank = 0;
        bool within = false;
    };
    with_run(exchange, [&](const Run& run) {
        const auto at = std::make_shared<Place>();
        at->next = {run.id, static_cast<std::uint32_t>(std::min<std::size_t>(page->offset, ~0u))};
        reply_list(exchange, *page, [&view = exchange.view, caller = exchange.caller, at](Listing& to, json& cursor) {
            if (at->within) {
                if (at->rank < at->shown.workers.size())
                    to.add_element(worker_json(at->shown, at->rank++));
                else
                    to.end(), at->within = false;
                return true;
            }
            const auto attempt = view.cluster.attempts.lower_bound(at->next);
            const auto of = view.cluster.runs.find(at->next.run);
            if (of == view.cluster.runs.end() || attempt == view.cluster.attempts.end() ||
                attempt->first.run != at->next.run)
                return false;
            if (to.full()) {
                cursor = std::to_string(attempt->first.number);
                return false;
            }
            *at = {.next = {attempt->first.run, attempt->first.number + 1},
                   .shown = attempt_for(caller, of->second, attempt->second),
                   .rank = 0,
                   .within = true};
            to.begin(attempt_json(view, at->shown), "workers");
            return true;
        });
    });
}

void get_checkpoints(Exchange& exchange) {
    with_run(exchange, [&](const Run& run) {
        std::vector<std::string> directories;
        std::string latest;
        for (const Checkpoint* checkpoint : checkpoints_of(exchange.view.cluster, run.id)) {
            directories.push_back(checkpoint->directory);
            if (!checkpoint->deleting) latest = checkpoint->directory;
        }
        const std::size_t count = directories.size();
        reply_list(
            exchange, count,
            [&view = exchange.view, id = run.id, latest, directories = std::move(directories)](std::size_t i) -> json {
                const auto of = view.cluster.runs.find(id);
                const auto entry = view.cluster.checkpoints.find({.run = id, .directory = directories[i]});
                if (of == view.cluster.runs.end() || entry == view.cluster.checkpoints.end()) return nullptr;
                json item = checkpoint_json(of->second, entry->second);
                item["latest"] = directories[i] == latest;
                return item;
            });
    });
}

// Explains why a run waits. This is done on a copy of the records, beside the loop, since an explanation looks at every
// node and every earlier run.
void get_explain(Exchange& exchange, Planner& planner, const state::SqliteJournal& journal) {
    with_run(exchange, [&](const Run& run) {
        const Time now = exchange.view.clock.now();
        const RunId id = run.id;
        const auto why = std::make_shared<std::optional<Explanation>>();
        const auto reply = [why, now, id, &journal](Exchange& to, const Status& looked) {
            if (!looked) return refuse(to, looked.error());
            const auto entry = to.view.cluster.runs.find(id);
            if (entry == to.view.cluster.runs.end())
                return refuse(to, {ErrorCode::not_found, "the run was removed meanwhile", "rtrain ps --all"});
            // A run that is not in the queue is explained here, without the copy.
            const Explanation explanation =
                *why ? **why : explain(to.view.cluster, now, id, words_for(to.caller, entry->second));
            reply_json(to, 200, explanation_json(to.view, journal, entry->second, explanation));
        };
        if (run.state != RunState::queued && run.state != RunState::recovering) return reply(exchange, Done{});
        planner.look(
            exchange.caller.user,
            [why, now, id, words = words_for(exchange.caller, run)](Cluster& copy) {
                copy.index.catch_up(copy);
                if (copy.runs.contains(id)) *why = explain(copy, now, id, words);
            },
            [kept = exchange, reply](const Status& looked) mutable { guarded(kept, [&] { reply(kept, looked); }); },
            run.spec.after);
    });
}

namespace {

json waiting_json(const View& view, const Run& run, Time now, const std::string& why) {
    return {{"position", json()},
            {"run_id", view.run_id(run.id)},
            {"name", run.name},
            {"state", to_text(run.state)},
            {"queue", run.spec.queue},
            {"priority", run.spec.priority},
            {"starts_in_ms", run.reserved_from > now ? json((run.reserved_from - now).ms) : json()},
            {"waiting_ms", (now - run.submitted).ms},
            {"needs", needs_text(run.spec)},
            {"why", why}};
}

using Reasons = std::map<RunId, std::string>;

// Answers with the queue: waiting runs in their order. Runs that wait for another run, or for their array's limit, come
// last and have no position.
void reply_queue(Exchange& exchange, const Reasons& reasons) {
    const Time now = exchange.view.clock.now();
    std::vector<RunId> order = queue_order(exchange.view.cluster);
    const std::size_t in_queue = order.size();
    for (const auto& [id, run] : exchange.view.cluster.runs)
        if (run.state == RunState::queued && (!run.after.empty() || run.array_waits)) order.push_back(id);
    const std::size_t count = order.size();
    reply_list(exchange, count,
               [&view = exchange.view, caller = exchange.caller, now, in_queue, order = std::move(order),
                reasons](std::size_t i) -> json {
                   const auto entry = view.cluster.runs.find(order[i]);
                   if (entry == view.cluster.runs.end()) return nullptr;
                   const Run& run = entry->second;
                   if (run.state != RunState::queued && run.state != RunState::recovering) return nullptr;
                   const auto known = reasons.find(run.id);
                   const bool explained = known != reasons.end();
                   const std::string why = explained ? known->second : to_text(run.reason, words_for(caller, run));
                   json item = waiting_json(view, run, now, why);
                   if (i < in_queue) item["position"] = i + 1;
                   return item;
               });
}

}  // namespace

// Answers with the queue and reasons. The first runs are explained beside the loop, for half a second at most. The
// other runs show the reason that is in their record.
void get_queue(Exchange& exchange, Planner& planner) {
    // the most runs that are explained, since an explanation looks at every node
    constexpr std::size_t explained_most = 100;
    constexpr std::int64_t explaining_us = 500'000;
    const auto page = page_of(exchange);
    if (!page) return refuse(exchange, page.error());
    std::vector<RunId> first = queue_order(exchange.view.cluster);
    first.resize(std::min({first.size(), explained_most, page->offset + page->limit}));
    first.erase(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(std::min(first.size(), page->offset)));
    if (first.empty()) return reply_queue(exchange, {});
    const auto reasons = std::make_shared<Reasons>();
    planner.look(
        exchange.caller.user,
        [reasons, caller = exchange.caller, first = std::move(first), now = exchange.view.clock.now()](Cluster& copy) {
            copy.index.catch_up(copy);
            const std::int64_t until_us = monotonic_us() + explaining_us;
            for (auto id = first.begin(); id != first.end() && monotonic_us() < until_us; ++id)
                if (const auto run = copy.runs.find(*id); run != copy.runs.end()) {
                    const JobWords words = words_for(caller, run->second);
                    (*reasons)[*id] =
                        shortest_reason(explain(copy, now, *id, words), to_text(run->second.reason, words));
                }
        },
        [kept = exchange, reasons](const Status& looked) mutable {
            guarded(kept, [&] { reply_queue(kept, looked ? *reasons : Reasons{}); });
        });
}

// Answers with the demand of the waiting runs by shape, which shows what kind of machines would help.
void get_demand(Exchange& exchange) {
    std::vector<Demand> demand = waiting_demand(exchange.view.cluster);
    const std::size_t count = demand.size();
    reply_list(exchange, count, [demand = std::move(demand)](std::size_t i) -> json {
        const Demand& shape = demand[i];
        json selector = json::array();
        for (const LabelCondition& condition : shape.selector) selector.push_back(to_text(condition));
        return {{"resources", resources_json(shape.demand)},
                {"label_selector", std::move(selector)},
                {"placement", to_text(shape.strategy)},
                {"workers", shape.bundles},
                {"runs", shape.runs},
                {"largest_run", shape.largest}};
    });
}

}  // namespace rtrain::head
