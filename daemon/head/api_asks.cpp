// What a person asks of a live run: to stop, to bring a checkpoint now, to have another number of workers.
#include "daemon/head/api.hpp"
#include "daemon/head/parents.hpp"
#include "daemon/head/view_json.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t longest_ms = 366LL * 24 * 3'600'000;

// A whole number of the body within its bounds; none: it was left out.
Result<std::optional<std::int64_t>> number_field(const json& body, const char* name, std::int64_t least,
                                                 std::int64_t most) {
    const auto found = body.find(name);
    if (found == body.end() || found->is_null()) return std::optional<std::int64_t>();
    const bool fits = found->is_number_integer() && found->get<double>() >= static_cast<double>(least) &&
                      found->get<double>() <= static_cast<double>(most);
    if (fits) return std::optional(found->get<std::int64_t>());
    return Error{
        ErrorCode::usage,
        std::string(name) + " must be a whole number from " + std::to_string(least) + " to " + std::to_string(most),
        ""};
}

// Decides about the run that {run} names, and answers with the run as it is then.
void ask_of_run(Ask& ask, RunId id, Event event) {
    ask.head.take(std::move(event), [kept = ask, id](const Decision& decision) mutable {
        const auto found = kept.head.cluster.runs.find(id);
        if (found == kept.head.cluster.runs.end())
            return refuse(kept, find_run(kept.head, kept.variables["run"]).error());
        if (decision.refused) return refuse(kept, *decision.refused);
        reply_json(kept, 202, full_run_json(kept.head, found->second));
    });
}

}  // namespace

void post_stop(Ask& ask) {
    const auto id = find_run(ask.head, ask.variables["run"]);
    if (!id) return refuse(ask, id.error());
    const auto body = body_of(ask);
    if (!body) return refuse(ask, body.error());
    const auto deadline = number_field(*body, "deadline_ms", 0, longest_ms);
    if (!deadline) return refuse(ask, deadline.error());
    const json checkpoint = body->value("checkpoint", json(false));
    if (!checkpoint.is_boolean()) return refuse(ask, {ErrorCode::usage, "checkpoint must be true or false", ""});
    const Run& run = ask.head.cluster.runs.at(*id);
    if (terminal(run.state)) return reply_json(ask, 200, full_run_json(ask.head, run));
    RunStopAsked event{.run = *id, .by = ask.caller.user, .wall_ms = wall_ms(), .checkpoint = checkpoint.get<bool>()};
    if (*deadline) event.deadline = Duration{**deadline};
    for (const RunId child : submitted_below(ask.head, *id)) {
        RunStopAsked same = event;
        same.run = child;
        ask.head.take(std::move(same), [](const Decision&) {});  // one that has ended meanwhile is as wanted
    }
    ask.head.take(std::move(event), [kept = ask, id = *id](const Decision& decision) mutable {
        const auto found = kept.head.cluster.runs.find(id);
        if (found == kept.head.cluster.runs.end())
            return refuse(kept, find_run(kept.head, kept.variables["run"]).error());
        const bool ended = decision.refused && terminal(found->second.state);
        if (decision.refused && !ended) return refuse(kept, *decision.refused);
        reply_json(kept, ended ? 200 : 202, full_run_json(kept.head, found->second));
    });
}

void post_checkpoint_ask(Ask& ask) {
    const auto id = find_run(ask.head, ask.variables["run"]);
    if (!id) return refuse(ask, id.error());
    ask_of_run(ask, *id, RunCheckpointAsked{.run = *id, .by = ask.caller.user});
}

void post_resize(Ask& ask) {
    const auto id = find_run(ask.head, ask.variables["run"]);
    if (!id) return refuse(ask, id.error());
    const auto body = body_of(ask);
    if (!body) return refuse(ask, body.error());
    const auto workers = number_field(*body, "workers", 1, 1'000'000);
    const auto deadline = number_field(*body, "deadline_ms", 0, longest_ms);
    if (!workers) return refuse(ask, workers.error());
    if (!deadline) return refuse(ask, deadline.error());
    if (!*workers) return refuse(ask, {ErrorCode::usage, "workers is missing: how many there are to be", ""});
    RunResizeAsked event{.run = *id, .by = ask.caller.user, .workers = static_cast<std::uint32_t>(**workers)};
    if (*deadline) event.deadline = Duration{**deadline};
    ask_of_run(ask, *id, std::move(event));
}

}  // namespace rtrain::head
