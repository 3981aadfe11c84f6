// Handles requests to a live run: to stop, to make a checkpoint, to change the number of workers, the priority or its
// yielding, to print the stacks of its ranks.
#include <limits>
#include <map>

#include "daemon/head/api/handlers.hpp"
#include "daemon/head/api/parents.hpp"
#include "daemon/head/base/clock.hpp"
#include "daemon/head/base/number_ranges.hpp"
#include "daemon/head/events/news.hpp"
#include "daemon/head/requests/audit.hpp"
#include "daemon/head/requests/job_output.hpp"
#include "daemon/head/requests/pages_json.hpp"
#include "daemon/head/sessions/sessions.hpp"
#include "daemon/security/security.hpp"
#include "scheduler/model/derived.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t longest_ms = 366LL * 24 * 3'600'000;
constexpr std::size_t verified_most = 1'000;  // the most checkpoints in one request

// Returns a whole number of the body; nullopt if the field is missing. Fails if the number is outside of its bounds.
Result<std::optional<std::int64_t>> number_field(const json& body, const char* name, std::int64_t least,
                                                 std::int64_t most) {
    const auto entry = body.find(name);
    if (entry == body.end() || entry->is_null()) return std::optional<std::int64_t>();
    const bool fits = entry->is_number_integer() && entry->get<double>() >= static_cast<double>(least) &&
                      entry->get<double>() <= static_cast<double>(most);
    if (fits) return std::optional(entry->get<std::int64_t>());
    return Error{
        ErrorCode::usage,
        std::string(name) + " must be a whole number from " + std::to_string(least) + " to " + std::to_string(most),
        ""};
}

// Passes the event to the core, and answers with the run after the decision.
void request_of_run(Exchange& exchange, RunId id, Event event) {
    exchange.events.take(std::move(event), [kept = exchange, id](const Decision& decision) mutable {
        const auto entry = kept.view.cluster.runs.find(id);
        if (entry == kept.view.cluster.runs.end())
            return refuse(kept, find_run(kept.view, kept.variables["run"]).error());
        if (decision.refused) return refuse(kept, *decision.refused);
        reply_json(kept, 202, full_run_json(kept.view, entry->second, words_for(kept.caller, entry->second)));
    });
}

// Returns an event for each checkpoint of the body, with its number of missing, short or changed files.
Result<std::vector<CheckpointVerified>> verified_in(const json& body, RunId run) {
    const Error wrong{ErrorCode::usage,
                      R"(checkpoints must be a list of 1 to 1000 like {"directory": "epoch-3", "faults": 0})", ""};
    const auto list = body.find("checkpoints");
    if (list == body.end() || !list->is_array() || list->empty() || list->size() > verified_most) return wrong;
    std::map<std::string, CheckpointVerified>
        by_directory;  // has one event per directory, since each event makes a row in the journal
    for (const json& checkpoint : *list) {
        if (!checkpoint.is_object() || !checkpoint.value("directory", json()).is_string()) return wrong;
        const auto faults = number_field(checkpoint, "faults", 0, std::numeric_limits<std::uint32_t>::max());
        if (!faults) return faults.error();
        if (!*faults) return wrong;
        const std::string directory = checkpoint["directory"].get<std::string>();
        by_directory[directory] = {
            .run = run, .directory = directory, .wall_ms = wall_ms(), .faults = static_cast<std::uint32_t>(**faults)};
    }
    std::vector<CheckpointVerified> out;
    for (auto& [directory, event] : by_directory) out.push_back(std::move(event));
    return out;
}

// Returns the attempt of the run whose workers run; null if there is none.
const Attempt* running_attempt(const View& view, RunId run) {
    const Attempt* running = nullptr;
    for (const Attempt* attempt : attempts_of(view.cluster, run))
        if (attempt->state == AttemptState::running || attempt->state == AttemptState::starting) running = attempt;
    return running;
}

// The requested ranks that still run; key: their node. Ranks on disconnected nodes are left out, and `away` contains
// these nodes.
struct Meant {
    std::map<std::string, std::vector<std::uint32_t>> by_node;
    std::vector<std::uint32_t> ranks, ended;
    std::set<std::string> away;
};
Meant meant_ranks(const Sessions& sessions, const Attempt& attempt, const std::optional<NumberRanges>& choice) {
    Meant out;
    for (std::uint32_t rank = 0; rank < attempt.workers.size(); ++rank) {
        if (choice && !choice->contains(rank)) continue;
        if (attempt.workers[rank].exit) {
            out.ended.push_back(rank);
            continue;
        }
        const std::string& node = attempt.workers[rank].seat.node.value;
        if (!sessions.connected(node)) {
            out.away.insert(node);
            continue;
        }
        out.by_node[node].push_back(rank);
        out.ranks.push_back(rank);
    }
    return out;
}

// Returns an audit row for a run that is stopped together with the run that submitted it.
AuditDraft audit_of_child(const Exchange& exchange, RunId child) {
    if (!exchange.audit || !*exchange.audit) return nullptr;
    auto draft = std::make_shared<std::optional<state::AuditRow>>(*exchange.audit);
    (*draft)->run = exchange.view.run_id(child);
    return draft;
}

// Returns what stops the run, for the stored reason: the caller, or the part of a sweep that the request names.
Result<std::string> stopped_by(const Exchange& exchange, const json& body) {
    static const std::map<std::string, std::string> parts = {
        {"scheduler", "its sweep's scheduler"},
        {"exploit", "its sweep's scheduler, to start from a better trial"},
        {"stopper", "its sweep's stopper"},
        {"budget", "its sweep's time budget"},
        {"fail_fast", "its sweep, because another trial failed"},
    };
    if (!body.contains("for")) return exchange.caller.user;
    const json& part = body["for"];
    const auto known = part.is_string() ? parts.find(part.get<std::string>()) : parts.end();
    if (known == parts.end())
        return Error{ErrorCode::usage, "for must be scheduler, exploit, stopper, budget or fail_fast",
                     "leave it out where a person stops the run"};
    return known->second;
}

}  // namespace

void post_stop(Exchange& exchange) {
    const auto id = find_run(exchange.view, exchange.variables["run"]);
    if (!id) return refuse(exchange, id.error());
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const auto deadline = number_field(*body, "deadline_ms", 0, longest_ms);
    if (!deadline) return refuse(exchange, deadline.error());
    const json checkpoint = body->value("checkpoint", json(false));
    if (!checkpoint.is_boolean()) return refuse(exchange, {ErrorCode::usage, "checkpoint must be true or false", ""});
    const json now = body->value("now", json(false));
    if (!now.is_boolean()) return refuse(exchange, {ErrorCode::usage, "now must be true or false", ""});
    if (now == json(true) && checkpoint == json(true))
        return refuse(exchange, {ErrorCode::usage, "now and checkpoint contradict each other", "give one of them"});
    const auto by = stopped_by(exchange, *body);
    if (!by) return refuse(exchange, by.error());
    const Run& run = exchange.view.cluster.runs.at(*id);
    if (terminal(run.state)) {
        drop_audit(exchange);
        return reply_json(exchange, 200, full_run_json(exchange.view, run, words_for(exchange.caller, run)));
    }
    if (run.state == RunState::stopping && now == json(false)) drop_audit(exchange);  // a repeated stop changes nothing
    RunStopAsked event{.run = *id, .by = *by, .wall_ms = wall_ms(), .checkpoint = checkpoint.get<bool>()};
    if (*deadline) event.deadline = Duration{**deadline};
    event.now = now.get<bool>();
    for (const RunId child : submitted_below(exchange.view, *id)) {
        const Auditing scope(exchange.events, audit_of_child(exchange, child));
        RunStopAsked same = event;
        same.run = child;
        // the event changes nothing if the run has ended meanwhile
        exchange.events.take(std::move(same), [](const Decision&) {});
    }
    exchange.events.take(std::move(event), [kept = exchange, id = *id](const Decision& decision) mutable {
        const auto entry = kept.view.cluster.runs.find(id);
        if (entry == kept.view.cluster.runs.end())
            return refuse(kept, find_run(kept.view, kept.variables["run"]).error());
        const bool ended = decision.refused && terminal(entry->second.state);
        if (decision.refused && !ended) return refuse(kept, *decision.refused);
        reply_json(kept, ended ? 200 : 202,
                   full_run_json(kept.view, entry->second, words_for(kept.caller, entry->second)));
    });
}

void post_checkpoint_request(Exchange& exchange) {
    const auto id = find_run(exchange.view, exchange.variables["run"]);
    if (!id) return refuse(exchange, id.error());
    // A checkpoint is pending already, so a repeated request needs no event.
    const Attempt* attempt = running_attempt(exchange.view, *id);
    if (attempt != nullptr && core::request_pending(*attempt)) {
        drop_audit(exchange);
        const Run& run = exchange.view.cluster.runs.at(*id);
        return reply_json(exchange, 202, full_run_json(exchange.view, run, words_for(exchange.caller, run)));
    }
    request_of_run(exchange, *id, RunCheckpointAsked{.run = *id, .by = exchange.caller.user});
}

// Stores the results of a verification. Leaves out checkpoints that the run no longer has. The request has one row in
// the audit, which is saved with the last event.
void post_verified(Exchange& exchange) {
    const auto id = find_run(exchange.view, exchange.variables["run"]);
    if (!id) return refuse(exchange, id.error());
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    auto events = verified_in(*body, *id);
    if (!events) return refuse(exchange, events.error());
    std::erase_if(*events, [&](const CheckpointVerified& event) {
        const auto known = exchange.view.cluster.checkpoints.find({.run = *id, .directory = event.directory});
        return known == exchange.view.cluster.checkpoints.end() || known->second.deleting;
    });
    const json answer = {{"recorded", events->size()}};
    if (events->empty()) {
        drop_audit(exchange);
        return reply_json(exchange, 200, answer);
    }
    for (std::size_t i = 0; i + 1 < events->size(); ++i) {
        const Auditing scope(exchange.events, nullptr);
        exchange.events.take(std::move((*events)[i]), [](const Decision&) {});
    }
    exchange.events.take(std::move(events->back()),
                         [kept = exchange, answer](const Decision&) mutable { reply_json(kept, 200, answer); });
}

void post_resize(Exchange& exchange) {
    const auto id = find_run(exchange.view, exchange.variables["run"]);
    if (!id) return refuse(exchange, id.error());
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const auto workers = number_field(*body, "workers", 1, 1'000'000);
    const auto deadline = number_field(*body, "deadline_ms", 0, longest_ms);
    if (!workers) return refuse(exchange, workers.error());
    if (!deadline) return refuse(exchange, deadline.error());
    if (!*workers) return refuse(exchange, {ErrorCode::usage, "workers is missing: how many there are to be", ""});
    RunResizeAsked event{.run = *id, .by = exchange.caller.user, .workers = static_cast<std::uint32_t>(**workers)};
    if (*deadline) event.deadline = Duration{**deadline};
    request_of_run(exchange, *id, std::move(event));
}

void post_priority(Exchange& exchange) {
    const auto id = find_run(exchange.view, exchange.variables["run"]);
    if (!id) return refuse(exchange, id.error());
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const auto priority = number_field(*body, "priority", 0, 100);
    if (!priority) return refuse(exchange, priority.error());
    if (!*priority)
        return refuse(exchange, {ErrorCode::usage, "priority is missing: a whole number from 0 to 100", ""});
    audit_detail(exchange, "priority=" + std::to_string(**priority));
    request_of_run(
        exchange, *id,
        RunPriorityChanged{.run = *id, .by = exchange.caller.user, .priority = static_cast<std::int32_t>(**priority)});
}

void post_yields(Exchange& exchange) {
    const auto id = find_run(exchange.view, exchange.variables["run"]);
    if (!id) return refuse(exchange, id.error());
    const auto body = body_of(exchange);
    if (!body) return refuse(exchange, body.error());
    const json asked = body->value("yields", json());
    if (!asked.is_boolean()) return refuse(exchange, {ErrorCode::usage, "yields must be true or false", ""});
    const Yielding yielding = asked == json(true) ? Yielding::active : Yielding::paused;
    const Run& run = exchange.view.cluster.runs.at(*id);
    const bool changes = run.yielding != yielding || terminal(run.state) || run.state == RunState::stopping;
    if (!changes) {
        drop_audit(exchange);
        return reply_json(exchange, 202, full_run_json(exchange.view, run, words_for(exchange.caller, run)));
    }
    audit_detail(exchange, std::string("yields=") + (asked == json(true) ? "true" : "false"));
    request_of_run(exchange, *id, RunYieldsChanged{.run = *id, .by = exchange.caller.user, .yielding = yielding});
}

// Requests stacks. The ranks write them into their logs, after a line that contains `marker`.
void post_stack(Exchange& exchange, Sessions& sessions) {
    const auto id = find_run(exchange.view, exchange.variables["run"]);
    if (!id) return refuse(exchange, id.error());
    const Run& run = exchange.view.cluster.runs.at(*id);
    const Attempt* attempt = running_attempt(exchange.view, *id);
    if (!attempt)
        return refuse(exchange,
                      {ErrorCode::conflict, "run " + run.name + " is " + to_text(run.state) + ": no rank of it runs",
                       "rtrain describe " + run.name});
    const std::string words = exchange.query("rank");
    const auto choice = words.empty() || words == "all" ? std::nullopt : number_list(words);
    const bool readable = words.empty() || words == "all" || choice;
    if (!readable || (choice && (choice->empty() || choice->highest() >= attempt->workers.size())))
        return refuse(exchange, {ErrorCode::usage,
                                 "rank '" + words + "' is no list of ranks of " + run.name + ", which has 0 to " +
                                     std::to_string(attempt->workers.size() - 1),
                                 "for example 0,3-5, or all"});
    const Meant meant = meant_ranks(sessions, *attempt, choice);
    const std::string marker = "asked for by " + exchange.caller.user + ", " + security::random_hex(4);
    for (const auto& [node, ranks] : meant.by_node)
        sessions.send(node, protocol::TakeStacks{.attempt = reference(*attempt), .ranks = ranks, .why = marker});
    reply_json(exchange, 202,
               {{"run_id", exchange.view.run_id(*id)},
                {"attempt", attempt->id.number},
                {"ranks", meant.ranks},
                {"ended", meant.ended},
                {"away", meant.away},
                {"marker", marker}});
}

}  // namespace rtrain::head
