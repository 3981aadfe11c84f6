// Runs: lists, one run; attempts, checkpoints, explanations and the queue.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "daemon/head/api.hpp"
#include "daemon/head/job_words.hpp"
#include "daemon/head/view_json.hpp"
#include "scheduler/explain/explain.hpp"
#include "scheduler/queue/order.hpp"

namespace rtrain::head {
namespace {

// Calls `then` with the run that {run} names, or refuses.
template <class Then>
void with_run(Ask& ask, const Then& then) {
    const auto id = find_run(ask.head, ask.variables["run"]);
    if (!id) return refuse(ask, id.error());
    then(ask.head.cluster.runs.at(*id));
}

bool among(const std::string& list, const std::string& word) {
    return list.empty() || ("," + list + ",").find("," + word + ",") != std::string::npos;
}

// Values of `env` are shown to the run's user and to admins alone.
void hide_values(json& job) {
    if (!job.is_object() || !job.contains("env") || !job["env"].is_object()) return;
    for (auto& [name, value] : job["env"].items()) value = "(hidden)";
}

// Which runs a list shows. Without `all`: those that live, and those that ended within a day.
constexpr std::int64_t recent_ms = 24LL * 3'600'000;
struct Filter {
    explicit Filter(const Ask& ask)
        : state(ask.query("state")), user(ask.query("user")), name(ask.query("name")), all(ask.asked("all")) {}
    bool shows(const Run& run) const {
        if (!among(state, to_text(run.state)) || !among(user, run.user)) return false;
        if (!among(name, run.name) && (run.array.empty() || !among(name, run.array))) return false;
        return all || !terminal(run.state) || wall_ms() - run.ended_wall_ms < recent_ms;
    }
    std::string state, user, name;
    bool all = false;
};

// One line of an explanation: the quota, the promise, or what most nodes say.
std::string shortest_reason(const Explanation& why, const std::string& otherwise) {
    for (const std::string& rule : why.rules)
        if (rule.find("needs") != std::string::npos || rule.starts_with("reserved") ||
            rule.starts_with("quota: may borrow no "))
            return rule;
    if (why.groups.empty()) return otherwise;
    const ReasonGroup& group = why.groups.front();
    return std::to_string(group.nodes) + (group.nodes == 1 ? " node " : " nodes ") + group.kind + ": " + group.text;
}

}  // namespace

void get_runs(Ask& ask) {
    const auto page = page_of(ask);
    if (!page) return refuse(ask, page.error());
    // Newest first: the cursor is the last id shown, so that runs submitted meanwhile do not shift the pages.
    RunId behind{page->offset == 0 ? ~0ull : page->offset};
    reply_list(
        ask, *page,
        [&head = ask.head, caller = ask.caller, filter = Filter(ask), behind](Listing& to, json& cursor) mutable {
            auto run = head.cluster.runs.lower_bound(behind);
            if (run == head.cluster.runs.begin()) return false;
            if (to.full()) {
                cursor = std::to_string(behind.value);
                return false;
            }
            behind = (--run)->first;
            if (filter.shows(run->second)) to.add(run_for(head, caller, run->second));
            return true;
        });
}

void get_run(Ask& ask) {
    with_run(ask, [&](const Run& run) {
        json out = full_run_json(ask.head, run);
        if (!reads_job_words(ask.caller, run)) {
            hide_values(out["job"]);
            out["reason"] = run_for(ask.head, ask.caller, run)["reason"];
        }
        reply_json(ask, 200, std::move(out));
    });
}

void get_attempts(Ask& ask) {
    const auto page = page_of(ask);
    if (!page) return refuse(ask, page.error());
    struct Place {  // within the list, and within the workers of the attempt that is being shown
        AttemptId next;
        Attempt shown;
        std::uint32_t rank = 0;
        bool within = false;
    };
    with_run(ask, [&](const Run& run) {
        const auto at = std::make_shared<Place>();
        at->next = {run.id, static_cast<std::uint32_t>(std::min<std::size_t>(page->offset, ~0u))};
        reply_list(ask, *page, [&head = ask.head, caller = ask.caller, at](Listing& to, json& cursor) {
            if (at->within) {
                if (at->rank < at->shown.workers.size())
                    to.add_element(worker_json(at->shown, at->rank++));
                else
                    to.end(), at->within = false;
                return true;
            }
            const auto attempt = head.cluster.attempts.lower_bound(at->next);
            const auto of = head.cluster.runs.find(at->next.run);
            if (of == head.cluster.runs.end() || attempt == head.cluster.attempts.end() ||
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
            to.begin(attempt_json(head, at->shown), "workers");
            return true;
        });
    });
}

void get_checkpoints(Ask& ask) {
    with_run(ask, [&](const Run& run) {
        std::vector<std::string> directories;
        std::string latest;
        for (const Checkpoint* one : checkpoints_of(ask.head.cluster, run.id)) {
            directories.push_back(one->directory);
            if (!one->deleting) latest = one->directory;
        }
        const std::size_t count = directories.size();
        reply_list(
            ask, count,
            [&head = ask.head, id = run.id, latest, directories = std::move(directories)](std::size_t i) -> json {
                const auto of = head.cluster.runs.find(id);
                const auto found = head.cluster.checkpoints.find({.run = id, .directory = directories[i]});
                if (of == head.cluster.runs.end() || found == head.cluster.checkpoints.end()) return nullptr;
                json item = checkpoint_json(head, of->second, found->second);
                item["latest"] = directories[i] == latest;
                return item;
            });
    });
}

// Why it waits is looked for at every node and every run before it: beside the loop.
void get_explain(Ask& ask) {
    with_run(ask, [&](const Run& run) {
        const Time now = ask.head.clock.now();
        const RunId id = run.id;
        const auto why = std::make_shared<std::optional<Explanation>>();
        const auto tell = [why, now, id](Ask& to, const Status& looked) {
            if (!looked) return refuse(to, looked.error());
            const auto found = to.head.cluster.runs.find(id);
            if (found == to.head.cluster.runs.end())
                return refuse(to, {ErrorCode::not_found, "the run was removed meanwhile", "rtrain ps --all"});
            // Without a copy: it is not in the queue, or left it meanwhile.
            const Explanation told = *why ? **why : explain(to.head.cluster, now, id);
            reply_json(to, 200, explanation_for(to.head, to.caller, found->second, told));
        };
        if (run.state != RunState::queued && run.state != RunState::recovering) return tell(ask, Done{});
        ask.head.planner.look(
            ask.caller.user,
            [why, now, id](Cluster& copy) {
                copy.ledger.catch_up(copy);
                if (copy.runs.contains(id)) *why = explain(copy, now, id);
            },
            [kept = ask, tell](const Status& looked) mutable { guarded(kept, [&] { tell(kept, looked); }); },
            run.spec.after);
    });
}

namespace {

json waiting_json(const Head& head, const Run& run, Time now, const std::string& why) {
    return {{"position", json()},
            {"run_id", head.run_id(run.id)},
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

// Those in the queue by their order; behind them those that are not in it yet, for another run or their array's limit
// comes first. They have no position.
void reply_queue(Ask& ask, const Reasons& reasons) {
    const Time now = ask.head.clock.now();
    std::vector<RunId> order = queue_order(ask.head.cluster);
    const std::size_t in_queue = order.size();
    for (const auto& [id, run] : ask.head.cluster.runs)
        if (run.state == RunState::queued && (!run.after.empty() || run.array_waits)) order.push_back(id);
    const std::size_t count = order.size();
    reply_list(ask, count,
               [&head = ask.head, caller = ask.caller, now, in_queue, order = std::move(order),
                reasons](std::size_t i) -> json {
                   const auto found = head.cluster.runs.find(order[i]);
                   if (found == head.cluster.runs.end()) return nullptr;
                   const Run& run = found->second;
                   if (run.state != RunState::queued && run.state != RunState::recovering) return nullptr;
                   const auto known = reasons.find(run.id);
                   const std::string& text = known == reasons.end() ? run.reason : known->second;
                   json item = waiting_json(head, run, now, text);
                   item["why"] = line_for(head, caller, run, text);
                   if (i < in_queue) item["position"] = i + 1;
                   return item;
               });
}

}  // namespace

// The first are explained, beside the loop and for half a second; the others, and all when that takes too long, have
// the reason on record.
void get_queue(Ask& ask) {
    constexpr std::size_t explained_most = 100;  // an explanation looks at every node
    constexpr std::int64_t explaining_us = 500'000;
    const auto page = page_of(ask);
    if (!page) return refuse(ask, page.error());
    std::vector<RunId> first = queue_order(ask.head.cluster);
    first.resize(std::min({first.size(), explained_most, page->offset + page->limit}));
    first.erase(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(std::min(first.size(), page->offset)));
    if (first.empty()) return reply_queue(ask, {});
    const auto reasons = std::make_shared<Reasons>();
    ask.head.planner.look(
        ask.caller.user,
        [reasons, first = std::move(first), now = ask.head.clock.now()](Cluster& copy) {
            copy.ledger.catch_up(copy);
            const std::int64_t until_us = monotonic_us() + explaining_us;
            for (auto id = first.begin(); id != first.end() && monotonic_us() < until_us; ++id)
                if (const auto run = copy.runs.find(*id); run != copy.runs.end())
                    (*reasons)[*id] = shortest_reason(explain(copy, now, *id), run->second.reason);
        },
        [kept = ask, reasons](const Status& looked) mutable {
            guarded(kept, [&] { reply_queue(kept, looked ? *reasons : Reasons{}); });
        });
}

}  // namespace rtrain::head
