// rtrain status|runs|runs rm|queue|nodes: print the runs, the queue and the nodes of the cluster.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cmd/client/api.hpp"
#include "cmd/client/stored.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

Result<int> status(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    Result<json> value = api->get("/v1/status");
    if (!value) return value.error();
    call.out.document(*value, "name", status_text(*value));
    return 0;
}

std::string parent_of(const json& run) {
    const json labels = run.value("labels", json());
    return labels.is_object() ? string_of(labels, "rtrain.parent") : "";
}

// Moves the runs that a run's workers submitted directly below that run, indented, oldest first. Only for text output.
void put_children_below(json& answer) {
    const json items = answer["items"];
    std::map<std::string, std::vector<const json*>> children;
    std::set<std::string> listed;
    for (const json& run : items) listed.insert(string_of(run, "run_id"));
    for (const json& run : items)
        if (listed.contains(parent_of(run))) children[parent_of(run)].push_back(&run);
    json ordered = json::array();
    const auto add = [&](const auto& self, const json& run, std::size_t depth) -> void {
        json row = run;
        if (depth > 0) row["name"] = std::string(2 * depth, ' ') + string_of(run, "name");
        ordered.push_back(std::move(row));
        std::vector<const json*>& below = children[string_of(run, "run_id")];
        for (auto child = below.rbegin(); child != below.rend(); ++child) self(self, **child, depth + 1);
    };
    for (const json& run : items)
        if (!listed.contains(parent_of(run))) add(add, run, 0);
    answer["items"] = std::move(ordered);
}

Result<int> runs(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    std::string target = "/v1/runs?limit=500";
    for (const char* filter : {"state", "user", "name"})
        if (call.arguments.has(filter))
            target += std::string("&") + filter + "=" + url_part(call.arguments.text(filter));
    if (call.arguments.has("all") || call.arguments.has("state")) target += "&all=true";
    Result<json> answer = api->list(target);
    if (!answer) return answer.error();
    if (call.out.for_people()) put_children_below(*answer);
    call.out.list(*answer,
                  {{"NAME", "name"},
                   {"RUN", "run_id"},
                   {"STATE", "state", Shape::state},
                   {"WORKERS", "workers"},
                   {"ATT", "attempt"},
                   {"AGE", "submitted", Shape::age},
                   {"REPORT", "last_report.index"},
                   {"CHECKPOINT", "latest_checkpoint"},
                   {"USER", "user", Shape::text, true},
                   {"NODES", "nodes", Shape::list, true},
                   {"YIELDS", "yields", Shape::text, true},
                   {"METRICS", "last_report.metrics", Shape::pairs, true},
                   {"SUBMITTED", "submitted", Shape::time, true},
                   {"STORAGE", "run_path", Shape::text, true},
                   {"REASON", "reason"}},
                  "name",
                  call.arguments.has("all")
                      ? "there are no runs"
                      : "no run lives, and none ended within a day; rtrain runs --all shows older ones");
    return 0;
}

Result<int> runs_rm(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    const std::string name = call.arguments.argument(0);
    const bool dry = call.arguments.has("dry-run");
    const std::string files = call.arguments.has("files") ? "true" : "false";
    if (!dry)
        if (Status sure = confirm(call, "The run " + name +
                                            (files == "true" ? " and its files, checkpoints as well, will be removed."
                                                             : " will be removed from the records."));
            !sure)
            return sure.error();
    Result<json> answer =
        api->remove("/v1/runs/" + url_part(name) + "?files=" + files + "&dry_run=" + (dry ? "true" : "false"));
    if (!answer) return answer.error();
    (*answer)["name"] = answer->value("name", name);
    const std::string directory = string_of(*answer, "files"), stay = string_of(*answer, "files_error");
    call.out.document(*answer, "name",
                      (dry ? "would remove " : "removed ") + name +
                          (directory.empty() || !stay.empty() ? "" : " and its files, " + directory) + "\n");
    if (!stay.empty()) call.out.talk("its files stay: " + stay);
    return stay.empty() ? 0 : 1;
}

Result<int> runs_stored(Invocation& call) {
    constexpr std::int64_t pause_ms = 1'000, patience_ms = 30 * 60'000;
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    const std::string name = call.arguments.argument(0);
    const Result<json> run = api->get("/v1/runs/" + url_part(name));
    if (!run) return run.error();
    if (run->value("ended", json()).is_null())
        return Error{.code = ErrorCode::conflict,
                     .message = name + " has not ended: it is " + string_of(*run, "state"),
                     .next = "rtrain logs " + name + " -f"};
    const Result<RunStore> place = open_run_store(call, string_of(*run, "run_path"));
    if (!place) return place.error();
    std::int64_t left_ms = call.arguments.duration_ms("timeout", patience_ms);
    for (;; left_ms -= pause_ms) {
        const Result<std::vector<std::string>> missing = files_missing(*api, *run, *place);
        if (!missing) return missing.error();
        const bool over = left_ms <= 0 || missing->empty() || wait_or_interrupt(pause_ms);
        if (!over) continue;
        json value = {{"name", string_of(*run, "name")}, {"stored", missing->empty()}, {"missing", *missing}};
        std::string text = name + (missing->empty() ? " is whole in " : " is not whole in ") + place->shown + "\n";
        for (const std::string& path : *missing) text += "missing: " + path + "\n";
        call.out.document(value, "name", text);
        return missing->empty() ? 0 : exit_code(ErrorCode::timed_out);
    }
}

Result<int> queue(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    Result<json> answer = api->list("/v1/queue");
    if (!answer) return answer.error();
    if (!call.out.for_people()) {
        Result<json> demand = api->list("/v1/demand");
        if (!demand) return demand.error();
        (*answer)["demand"] = std::move((*demand)["items"]);
    }
    call.out.list(*answer,
                  {{"POS", "position"},
                   {"NAME", "name"},
                   {"RUN", "run_id", Shape::text, true},
                   {"QUEUE", "queue"},
                   {"PRIORITY", "priority"},
                   {"WAITING", "waiting_ms", Shape::duration},
                   {"STARTS IN", "starts_in_ms", Shape::duration},
                   {"NEEDS", "needs"},
                   {"WHY", "why"}},
                  "name", "nothing waits");
    return 0;
}

Result<int> nodes(Invocation& call) {
    Result<Api> api = Api::open(call);
    if (!api) return api.error();
    Result<json> answer = api->list("/v1/nodes");
    if (!answer) return answer.error();
    std::vector<Column> columns = {{"NODE", "node"},
                                   {"STATE", "state", Shape::state},
                                   {"GPUS", "gpus"},
                                   {"FREE GPUS", "gpus_free", Shape::list, true},
                                   {"MODEL", "gpu_model"},
                                   {"FREE", "free", Shape::pairs},
                                   {"TOTAL", "resources", Shape::pairs, true},
                                   {"HEARTBEAT", "last_heartbeat_ms", Shape::duration},
                                   {"ADDRESS", "address", Shape::text, true},
                                   {"PORT", "port", Shape::text, true},
                                   {"LABELS", "labels", Shape::pairs, true},
                                   {"RUNS", "runs", Shape::list},
                                   {"REASON", "reason"}};
    const json& items = (*answer)["items"];
    if (std::any_of(items.begin(), items.end(),
                    [](const json& node) { return !node.value("warnings", json::array()).empty(); }))
        columns.push_back({"WARNING", "warnings", Shape::list});
    call.out.list(*answer, columns, "node",
                  "no node has joined; rtrain token create --role node prints the line that joins one");
    return 0;
}

}  // namespace

std::vector<Command> run_commands() {
    const Argument run{.name = "RUN", .value = Value::run};
    const Flag watch{.name = "watch", .help = "again and again, until Ctrl-C", .letter = 'w'};
    const Flag interval{
        .name = "interval", .takes = Value::duration, .shown = "TIME", .help = "of --watch (default 1s)"};
    return {{.words = "status",
             .group = "Cluster",
             .help = "show the cluster at a glance",
             .flags = {watch, interval},
             .handler = status},
            {.words = "nodes",
             .group = "Nodes",
             .help = "list the nodes, what they have and what is free",
             .flags = {watch, interval},
             .handler = nodes},
            {.words = "runs",
             .group = "Runs",
             .help = "list the runs that live or ended within a day, or all",
             .flags = {{.name = "all", .help = "older ones as well", .letter = 'a'},
                       {.name = "state",
                        .takes = Value::choice,
                        .shown = "STATE",
                        .help = "only these",
                        .choices = "QUEUED|STARTING|RUNNING|RECOVERING|RESIZING|STOPPING|SUCCEEDED|FAILED|STOPPED"},
                       {.name = "user", .takes = Value::text, .shown = "USER", .help = "only this user's"},
                       {.name = "name", .takes = Value::text, .shown = "NAME", .help = "only those of this name"},
                       watch,
                       interval},
             .handler = runs},
            {.words = "runs rm",
             .group = "Runs",
             .help = "remove a run that has ended",
             .arguments = {run},
             .flags = {{.name = "files", .help = "its directory on storage too, with all checkpoints"},
                       {.name = "dry-run", .help = "say what would go"}},
             .handler = runs_rm},
            {.words = "runs stored",
             .group = "Runs",
             .help = "wait until all that an ended run leaves is in its directory: logs, result; exit 8 when it is not",
             .arguments = {run},
             .flags = {{.name = "timeout", .takes = Value::duration, .shown = "TIME", .help = "(default 30m)"}},
             .handler = runs_stored},
            {.words = "queue",
             .group = "Runs",
             .help = "list the waiting runs in their order, with the reason",
             .flags = {watch, interval},
             .handler = queue}};
}

}  // namespace rtrain::cmd
