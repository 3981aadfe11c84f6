// Runs: lists, one run; attempts, checkpoints, explanations and the queue.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "daemon/head/api.hpp"
#include "daemon/head/job_words.hpp"
#include "daemon/head/view_json.hpp"

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

// Without `all`: what lives, and what ended within a day.
constexpr std::int64_t recent_ms = 24LL * 3'600'000;
bool listed(const Ask& ask, const Run& run) {
    if (!among(ask.query("state"), to_text(run.state)) || !among(ask.query("user"), run.user)) return false;
    if (!among(ask.query("name"), run.name) && !(among(ask.query("name"), run.array) && !run.array.empty()))
        return false;
    return ask.asked("all") || !terminal(run.state) || wall_ms() - run.ended_wall_ms < recent_ms;
}

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
    json items = json::array(), cursor;
    const auto& runs = ask.head.cluster.runs;
    // Newest first: the cursor is the last id shown, so that runs submitted meanwhile do not shift the pages.
    auto at = page->offset == 0 ? runs.end() : runs.lower_bound(RunId{page->offset});
    while (at != runs.begin() && items.size() < page->limit) {
        --at;
        if (listed(ask, at->second)) items.push_back(run_for(ask.head, ask.caller, at->second));
        if (items.size() == page->limit && at != runs.begin()) cursor = std::to_string(at->first.value);
    }
    reply_json(ask, 200, {{"items", std::move(items)}, {"next_cursor", std::move(cursor)}});
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
    with_run(ask, [&](const Run& run) {
        std::vector<json> items;
        for (const Attempt* one : attempts_of(ask.head.cluster, run.id))
            items.push_back(attempt_for(ask.head, ask.caller, run, *one));
        reply_list(ask, items);
    });
}

void get_checkpoints(Ask& ask) {
    with_run(ask, [&](const Run& run) {
        std::vector<json> items;
        std::size_t latest = 0;
        for (const Checkpoint* one : checkpoints_of(ask.head.cluster, run.id)) {
            items.push_back(checkpoint_json(ask.head, run, *one));
            if (!one->deleting) latest = items.size();
        }
        if (latest > 0) items[latest - 1]["latest"] = true;
        reply_list(ask, items);
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
    const Cluster& cluster = ask.head.cluster;
    const std::vector<RunId> order = queue_order(cluster);
    std::vector<const Run*> held_back;
    for (const auto& [id, run] : cluster.runs)
        if (run.state == RunState::queued && (!run.after.empty() || run.array_waits)) held_back.push_back(&run);
    reply_list(ask, order.size() + held_back.size(), [&](std::size_t i) {
        const Run& run = i < order.size() ? cluster.runs.at(order[i]) : *held_back[i - order.size()];
        const auto known = reasons.find(run.id);
        const std::string& text = known == reasons.end() ? run.reason : known->second;
        json item = waiting_json(ask.head, run, now, text);
        item["why"] = line_for(ask.head, ask.caller, run, text);
        if (i < order.size()) item["position"] = i + 1;
        return item;
    });
}

}  // namespace

// The first are explained, beside the loop; the others, and all when that takes too long, have the reason on record.
void get_queue(Ask& ask) {
    constexpr std::size_t explained_most = 100;  // an explanation looks at every node
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
            for (const RunId id : first)
                if (const auto run = copy.runs.find(id); run != copy.runs.end())
                    (*reasons)[id] = shortest_reason(explain(copy, now, id), run->second.reason);
        },
        [kept = ask, reasons](const Status& looked) mutable {
            guarded(kept, [&] { reply_queue(kept, looked ? *reasons : Reasons{}); });
        });
}

}  // namespace rtrain::head
