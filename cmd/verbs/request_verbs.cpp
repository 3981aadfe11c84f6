// rtrain stop|resize|priority|checkpoints ask: send requests about a live run. The head decides what follows a
// checkpoint, so it follows even if this program has ended.
#include <nlohmann/json.hpp>

#include "cmd/client/api.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

// Waits until `done` returns true, Ctrl-C is pressed (exit 130) or the time is over (exit 8).
template <class Done>
Result<int> wait_for(Invocation& call, Api& api, json& run, const std::string& what, Done done) {
    const std::int64_t deadline_ms = wall_now_ms() + call.arguments.duration_ms("timeout", 600'000);
    const std::string target = "/v1/runs/" + url_part(string_of(run, "run_id"));
    while (!done(run)) {
        if (wall_now_ms() > deadline_ms)
            return Error{.code = ErrorCode::timed_out,
                         .message = run_line(run) + ": it has not " + what + " in time",
                         .next = "rtrain describe " + string_of(run, "name")};
        if (wait_or_interrupt(100)) return 130;
        Result<json> now = api.get(target);
        if (!now) return now.error();
        run = *std::move(now);
    }
    return 0;
}

json asked(Invocation& call) {
    json body = json::object();
    if (call.arguments.has("deadline")) body["deadline_ms"] = call.arguments.duration_ms("deadline", 0);
    return body;
}

// Stops every live run of the job array with this name.
Result<int> stop_array(Invocation& call, Api& api, const json& body, const Error& no_such_run) {
    Result<json> members = api.list("/v1/runs?limit=500&name=" + url_part(call.arguments.argument(0)));
    if (!members) return members.error();
    json items = json::array();
    for (const json& member : (*members)["items"]) {
        if (is_terminal(member)) continue;
        Result<json> run = api.post("/v1/runs/" + url_part(string_of(member, "run_id")) + "/stop", body);
        if (!run) return run.error();
        items.push_back(*std::move(run));
    }
    if ((*members)["items"].empty()) return no_such_run;
    call.out.list({{"items", items}}, {{"NAME", "name"}, {"RUN", "run_id"}, {"STATE", "state", Shape::state}}, "name",
                  "no run of the array lives");
    return 0;
}

Result<int> stop(Invocation& call) {
    if (call.arguments.has("deadline") && !call.arguments.has("checkpoint"))
        return Error{.code = ErrorCode::usage,
                     .message = "--deadline is about the checkpoint that is waited for",
                     .next = "rtrain stop RUN --checkpoint --deadline 5m"};
    if (call.arguments.has("now") && call.arguments.has("checkpoint"))
        return Error{.code = ErrorCode::usage,
                     .message = "--now and --checkpoint contradict each other",
                     .next = "rtrain stop RUN --checkpoint --deadline 5m"};
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    json body = asked(call);
    if (call.arguments.has("checkpoint")) body["checkpoint"] = true;
    if (call.arguments.has("now")) body["now"] = true;
    Result<json> run = api->post("/v1/runs/" + url_part(call.arguments.argument(0)) + "/stop", body);
    if (!run && run.error().code == ErrorCode::not_found) return stop_array(call, *api, body, run.error());
    if (!run) return run.error();
    if (call.arguments.has("checkpoint") && !is_terminal(*run))
        call.out.talk(string_of(*run, "name") + " stops once its next checkpoint is committed" +
                      (call.arguments.has("deadline") ? ", or at the deadline" : "") + "; rtrain stop " +
                      string_of(*run, "name") + " ends it at once");
    if (call.arguments.has("wait")) {
        watch_interrupts(nullptr, nullptr);
        Result<int> waited = wait_for(call, *api, *run, "ended", is_terminal);
        if (!waited || *waited != 0) return waited;
        if (const std::string warning = lost_warning(*run); !warning.empty()) call.out.talk(warning);
    }
    call.out.document(*run, "name", run_line(*run) + "\n");
    return 0;
}

Result<int> resize(Invocation& call) {
    const std::string text = call.arguments.argument(1);
    if (text.empty() || text.size() > 7 || text.find_first_not_of("0123456789") != std::string::npos || text[0] == '0')
        return Error{.code = ErrorCode::usage,
                     .message = "\"" + text + "\" is not a number of workers",
                     .next = "rtrain resize RUN 4"};
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    json body = asked(call);
    const std::int64_t workers = std::stoll(text);
    body["workers"] = workers;
    Result<json> run = api->post("/v1/runs/" + url_part(call.arguments.argument(0)) + "/resize", body);
    if (!run) return run.error();
    if (call.arguments.has("wait")) {
        watch_interrupts(nullptr, nullptr);
        Result<int> waited = wait_for(call, *api, *run, "taken its new size", [&](const json& now) {
            return is_terminal(now) ||
                   (string_of(now, "state") == "RUNNING" && now.value("workers", json(0)) == workers);
        });
        if (!waited || *waited != 0) return waited;
    }
    call.out.document(*run, "name", run_line(*run) + "\n");
    return is_terminal(*run) ? 1 : 0;
}

Result<int> set_priority(Invocation& call) {
    const std::string text = call.arguments.argument(1);
    if (text.empty() || text.size() > 3 || text.find_first_not_of("0123456789") != std::string::npos ||
        std::stoi(text) > 100)
        return Error{.code = ErrorCode::usage,
                     .message = "\"" + text + "\" is not a priority from 0 to 100",
                     .next = "rtrain priority RUN 80"};
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    Result<json> run =
        api->post("/v1/runs/" + url_part(call.arguments.argument(0)) + "/priority", {{"priority", std::stoi(text)}});
    if (!run) return run.error();
    call.out.document(*run, "name", run_line(*run) + ", priority " + text + "\n");
    return 0;
}

Result<int> request_checkpoint(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    Result<json> run = api->post("/v1/runs/" + url_part(call.arguments.argument(0)) + "/checkpoint", json::object());
    if (!run) return run.error();
    const json before = run->value("latest_checkpoint", json());
    if (call.arguments.has("wait")) {
        watch_interrupts(nullptr, nullptr);
        Result<int> waited = wait_for(call, *api, *run, "committed a checkpoint", [&](const json& now) {
            return is_terminal(now) || (now.value("latest_checkpoint", json()) != before &&
                                        now.value("checkpoint_asked", json()).is_null());
        });
        if (!waited || *waited != 0) return waited;
    }
    call.out.document(*run, "name", run_line(*run) + "\n");
    return 0;
}

}  // namespace

std::vector<Command> request_commands() {
    const Argument run{.name = "RUN", .value = Value::run};
    const Flag timeout{
        .name = "timeout", .takes = Value::duration, .shown = "TIME", .help = "of --wait (default 10m); then exit 8"};
    return {{.words = "stop",
             .group = "Runs",
             .help = "stop a run",
             .arguments = {run},
             .flags = {{.name = "checkpoint", .help = "asked for one first: once it is committed"},
                       {.name = "deadline",
                        .takes = Value::duration,
                        .shown = "TIME",
                        .help = "of --checkpoint: then without it"},
                       {.name = "now", .help = "without its stop_grace; a checkpoint that is on its way is given up"},
                       {.name = "wait", .help = "until it has stopped"},
                       timeout},
             .handler = stop},
            {.words = "resize",
             .group = "Runs",
             .help = "give a run another number of workers, at its next checkpoint",
             .arguments = {run, {.name = "N"}},
             .flags = {{.name = "deadline",
                        .takes = Value::duration,
                        .shown = "TIME",
                        .help = "then without a new checkpoint, from the last one"},
                       {.name = "wait", .help = "until it trains with N workers"},
                       timeout},
             .handler = resize,
             .details = "The workers are asked for a checkpoint (should_checkpoint() in the loop) and start anew from "
                        "it in their new number. An elastic run (scaling.workers: min..max) grows up to N from then "
                        "on, when there is room. 7: not possible for this run. 9: there is no room for so many."},
            {.words = "priority",
             .group = "Runs",
             .help = "give a run another priority, 0 to 100: its place in the queue, and who may preempt it",
             .arguments = {run, {.name = "N"}},
             .handler = set_priority},
            {.words = "checkpoints ask",
             .group = "Checkpoints",
             .help = "ask a run for a checkpoint now",
             .arguments = {run},
             .flags = {{.name = "wait", .help = "until one is committed"}, timeout},
             .handler = request_checkpoint}};
}

}  // namespace rtrain::cmd
