// rtrain checkpoints list|inspect|verify: for a run that the head has a record of, or for a directory of a storage
// path.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cmd/client/run_store.hpp"
#include "cmd/text/progress.hpp"
#include "cmd/text/shell_word.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"
#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

json manifest_json(const RunStore& place, const storage::CommittedCheckpoint& checkpoint) {
    const storage::Manifest& m = checkpoint.manifest;
    const json metrics = parse_json(m.metrics_json.empty() ? "{}" : m.metrics_json);
    return {{"directory", m.directory},
            {"attempt", m.attempt},
            {"report", m.report},
            {"world_size", m.world_size},
            {"bytes", m.bytes()},
            {"metrics", metrics.is_discarded() ? json::object() : metrics},
            {"committed", time_text(m.wall_ms)},
            {"path", place.shown + "/" + m.directory},
            {"live", checkpoint.live}};
}

// Returns the verdict of the last `checkpoints verify` as one word.
const char* state_of(const json& checkpoint) {
    if (!checkpoint.value("verified", json()).is_string()) return "not verified";
    return checkpoint.value("faults", json()) == 0 ? "ok" : "damaged";
}

std::vector<Column> columns() {
    return {{"CHECKPOINT", "directory"},
            {"ATT", "attempt"},
            {"RANKS", "world_size"},
            {"SIZE", "bytes", Shape::bytes},
            {"COMMITTED", "committed", Shape::age},
            {"STATE", "state", Shape::state},
            {"METRICS", "metrics", Shape::pairs},
            {"LATEST", "latest"},
            {"PATH", "path", Shape::text, true}};
}

Result<std::vector<storage::CommittedCheckpoint>> committed(const RunStore& place) {
    return storage::list_checkpoints(*place.store, place.run_name);
}

Result<int> list_checkpoints(Invocation& call) {
    const std::string text = call.arguments.argument(0);
    json answer = {{"items", json::array()}};
    if (is_path(text)) {
        Result<RunStore> place = open_run_store(call, text);
        if (!place) return place.error();
        Result<std::vector<storage::CommittedCheckpoint>> all = committed(*place);
        if (!all) return all.error();
        json* newest = nullptr;
        for (const auto& checkpoint : *all) {
            answer["items"].push_back(manifest_json(*place, checkpoint));
            answer["items"].back()["latest"] = false;
        }
        for (json& item : answer["items"])
            if (item["live"] == true) newest = &item;
        if (newest != nullptr) (*newest)["latest"] = true;
    } else {
        Result<Api> api = Api::open(call);
        if (!api) return api.error();
        Result<json> listed = api->list("/v1/runs/" + url_part(text) + "/checkpoints");
        if (!listed) return listed.error();
        answer = std::move(*listed);
        for (json& item : answer["items"]) item["state"] = state_of(item);
    }
    call.out.list(answer, columns(), "directory", "no checkpoint is committed");
    return 0;
}

Error none_committed(const RunStore& place) {
    const bool any = place.checkpoint.empty();
    return {.code = ErrorCode::not_found,
            .message = place.shown + " has no committed checkpoint" + (any ? "" : " " + place.checkpoint),
            .next = any ? "rtrain checkpoints ask RUN asks a running one's workers for it"
                        : "rtrain checkpoints list " + shell_word(place.shown)};
}

// Returns the checkpoint that the command names. If it names none, returns the newest checkpoint on the live branch.
Result<storage::CommittedCheckpoint> chosen(const RunStore& place) {
    Result<std::vector<storage::CommittedCheckpoint>> all = committed(place);
    if (!all) return all.error();
    const storage::CommittedCheckpoint* chosen = nullptr;
    for (const auto& checkpoint : *all)
        if (place.checkpoint.empty() ? checkpoint.live : checkpoint.manifest.directory == place.checkpoint)
            chosen = &checkpoint;
    if (chosen != nullptr) return *chosen;
    return none_committed(place);
}

Result<int> inspect(Invocation& call) {
    Result<RunStore> place = open_run_store(call, call.arguments.argument(0));
    if (!place) return place.error();
    Result<storage::CommittedCheckpoint> checkpoint = chosen(*place);
    if (!checkpoint) return checkpoint.error();
    json value = manifest_json(*place, *checkpoint);
    value["files"] = json::array();
    for (const storage::ManifestFile& file : checkpoint->manifest.files)
        value["files"].push_back(
            {{"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}, {"rank", file.rank}});
    std::string text = value["path"].get<std::string>() + "\n  attempt " + json_text(value["attempt"]) + ", report " +
                       json_text(value["report"]) + ", " + json_text(value["world_size"]) + " ranks, committed " +
                       value["committed"].get<std::string>() +
                       (checkpoint->live ? "" : ", NOT on the live branch: never restored from") + "\n  metrics " +
                       json_text(value["metrics"]) + "\n\n";
    text += table_text(value["files"],
                       {{"FILE", "path"}, {"SIZE", "bytes", Shape::bytes}, {"RANK", "rank"}, {"SHA256", "sha256"}},
                       Format::table, false);
    call.out.document(value, "directory", text);
    return 0;
}

// Sends the verdicts of a verification to the head, which shows them on its page and in its lists. If sending fails,
// the verdicts stay the same.
void tell_head(Invocation& call, const RunStore& place, const json& items) {
    json checkpoints = json::array();
    for (const json& item : items)
        checkpoints.push_back({{"directory", item["directory"]}, {"faults", item["faults"].size()}});
    Result<Api> api = Api::open(call);
    constexpr std::size_t of_one_request = 1'000;
    for (std::size_t first = 0; api && first < checkpoints.size(); first += of_one_request) {
        const std::size_t end = std::min(first + of_one_request, checkpoints.size());
        const json part(checkpoints.begin() + static_cast<std::ptrdiff_t>(first),
                        checkpoints.begin() + static_cast<std::ptrdiff_t>(end));
        const Result<json> answer =
            api->post("/v1/runs/" + place.run_id + "/checkpoints/verified", {{"checkpoints", part}});
        if (!answer) return call.out.talk("the head does not know of it: " + answer.error().message);
    }
}

Result<int> verify(Invocation& call) {
    Result<RunStore> place = open_run_store(call, call.arguments.argument(0));
    if (!place) return place.error();
    Result<std::vector<storage::CommittedCheckpoint>> all = committed(*place);
    if (!all) return all.error();
    json items = json::array();
    bool sound = true;
    Progress progress("verifying");
    std::uint64_t done = 0, total = 0;
    for (const auto& checkpoint : *all) total += static_cast<std::uint64_t>(checkpoint.manifest.bytes());
    for (const auto& checkpoint : *all) {
        const std::string& name = checkpoint.manifest.directory;
        if (!place->checkpoint.empty() && name != place->checkpoint) continue;
        Result<std::vector<std::string>> faults = storage::verify_checkpoint(*place->store, place->run_name, name);
        if (!faults) return faults.error();
        sound = sound && faults->empty();
        items.push_back({{"directory", name},
                         {"state", faults->empty() ? "ok" : "damaged"},
                         {"faults", *faults},
                         {"bytes", checkpoint.manifest.bytes()},
                         {"path", place->shown + "/" + name}});
        progress.at(done += static_cast<std::uint64_t>(checkpoint.manifest.bytes()), total);
    }
    if (items.empty()) return none_committed(*place);
    if (!place->run_id.empty()) tell_head(call, *place, items);
    call.out.list({{"items", items}, {"sound", sound}},
                  {{"CHECKPOINT", "directory"},
                   {"STATE", "state", Shape::state},
                   {"SIZE", "bytes", Shape::bytes},
                   {"FAULTS", "faults", Shape::list}},
                  "directory", "");
    return sound ? 0 : 1;
}

}  // namespace

std::vector<Command> checkpoint_commands() {
    const char* group = "Checkpoints";
    return {{.words = "checkpoints list",
             .group = group,
             .help = "list the committed checkpoints",
             .arguments = {{.name = "RUN|PATH", .value = Value::run}},
             .handler = list_checkpoints},
            {.words = "checkpoints inspect",
             .group = group,
             .help = "show one: its files, hashes, metrics",
             .arguments = {{.name = "RUN|PATH[@CHECKPOINT]", .value = Value::checkpoint}},
             .handler = inspect},
            {.words = "checkpoints verify",
             .group = group,
             .help = "hash every file anew and compare; exit 1 when one differs",
             .arguments = {{.name = "RUN|PATH[@CHECKPOINT]", .value = Value::checkpoint}},
             .handler = verify}};
}

}  // namespace rtrain::cmd
