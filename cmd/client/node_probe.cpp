// See node_probe.hpp.
#include "cmd/client/node_probe.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "cmd/client/follow.hpp"
#include "cmd/client/job_file.hpp"
#include "cmd/client/run_store.hpp"
#include "cmd/client/stored.hpp"
#include "cmd/client/submission.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/status_text.hpp"
#include "cmd/text/units.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

constexpr std::int64_t probe_patience_ms = 120'000, probe_stored_within_ms = 15'000, probe_pause_ms = 250;
constexpr std::size_t node_text_max = 200, probed_addresses_max = 32;
constexpr const char* answer_mark = "rtrain-doctor ";
// The program that runs on the node. It prints one line. Its arguments are addresses of other agents.
constexpr const char* probe_program = R"program(
import importlib.util, json, os, socket, sys, time
seen = {"python": sys.version.split()[0], "executable": sys.executable, "time_ms": int(time.time() * 1000), "unreachable": []}
try:
    import torch
    seen["torch"] = torch.__version__
    seen["accelerator"] = "CUDA " + torch.version.cuda if torch.version.cuda else "ROCm" if getattr(torch.version, "hip", None) else "CPU"
except BaseException as error:
    seen["torch_error"] = type(error).__name__ + ": " + str(error)
try:
    import rtrain
    seen["rtrain"] = rtrain.__version__
except BaseException:
    pass
try:
    seen["gpus"] = len(os.listdir("/proc/driver/nvidia/gpus"))
except OSError:
    pass
for address in sys.argv[1:]:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), 2).close()
    except OSError as error:
        seen["unreachable"].append(address + " (" + (error.strerror or str(error)) + ")")
print("rtrain-doctor " + json.dumps(seen), flush=True)
)program";

std::string node_text(const std::string& text) {
    std::string out;
    for (const char letter : text.substr(0, node_text_max))
        out += static_cast<unsigned char>(letter) < ' ' ? ' ' : letter;
    return out;
}

std::string node_text_in(const json& value, const char* name) { return node_text(string_of(value, name)); }

std::string agent_address_of(const json& node) {
    const json port = node.value("port", json(0));
    if (!port.is_number_unsigned() || port == 0) return {};
    return host_port_text(string_of(node, "address"), port.get<std::uint16_t>());
}

struct Probe {
    NodeAnswer answer;
    std::string run;  // id of the probe's run; empty: not submitted
    json last;        // the run's fields, as the head last returned them
    std::int64_t begun_ms = 0;
};

Result<json> submit_probe(Invocation& call, Api& api, const json& node, const std::vector<std::string>& addresses) {
    json entrypoint = {call.arguments.text("interpreter", "python"), "-c", probe_program};
    const std::string own = agent_address_of(node);
    for (const std::string& address : addresses)
        if (address != own) entrypoint.push_back(address);
    json job = {{"version", 1},
                {"name", made_up_name("doctor")},
                {"entrypoint", std::move(entrypoint)},
                {"labels", {{"rtrain.doctor", "true"}}},
                {"limits", {{"wall_time", "90s"}}},
                {"scaling",
                 {{"workers", 1},
                  {"nodes", {string_of(node, "node")}},
                  {"wait_for_nodes", false},
                  {"resources_per_worker", {{"CPU", 0}}}}}};
    if (call.arguments.has("storage-path")) job["storage_path"] = call.arguments.text("storage-path");
    Result<spec::Job> checked = with_sets(call, json_text(job), {});
    if (!checked) return checked.error();
    return hand_over(api, {.job = std::move(*checked)});
}

bool probe_has_ended(const json& run) { return !run.value("ended", json()).is_null(); }

void await_probes(Api& api, std::vector<Probe>& probes) {
    const std::int64_t deadline = wall_now_ms() + probe_patience_ms;
    for (;;) {
        bool all_ended = true;
        for (Probe& probe : probes) {
            if (probe.run.empty() || (probe.last.is_object() && probe_has_ended(probe.last))) continue;
            Result<json> run = api.get("/v1/runs/" + url_part(probe.run));
            if (run) probe.last = std::move(*run);
            all_ended = all_ended && run && probe_has_ended(probe.last);
        }
        if (all_ended || wall_now_ms() > deadline || wait_or_interrupt(probe_pause_ms)) return;
    }
}

// Waits until the run's files are in its directory on the storage path. Stores which are missing in the answer.
void check_probe_storage(Invocation& call, Api& api, Probe& probe) {
    const std::string path = string_of(probe.last, "run_path");
    probe.answer.storage_path = string_of(probe.last, "storage_path");
    const Result<RunStore> place = open_run_store(call, path);
    if (!place) {
        probe.answer.storage_unknown = place.error().message;
        return;
    }
    const std::int64_t deadline = wall_now_ms() + probe_stored_within_ms;
    for (;;) {
        const Result<std::vector<std::string>> missing = files_missing(api, probe.last, *place);
        if (!missing) {
            probe.answer.storage_unknown = missing.error().message;
            return;
        }
        probe.answer.not_stored = missing->empty() ? "" : missing->front();
        if (missing->empty() || wall_now_ms() > deadline || wait_or_interrupt(probe_pause_ms)) return;
    }
}

// Finds the line that the probe printed in its run's log, and stores its values in `probe.answer`. If there is no such
// line, stores why: the reason in the run's status.
void read_probe(Api& api, Probe& probe) {
    LogWish wish;
    wish.rank = "0";
    wish.tail = 50;
    Result<std::string> lines = api.bytes(log_target(probe.run, wish, false));
    for (const std::string& line : lines ? split(*lines, '\n') : std::vector<std::string>{}) {
        const std::string text = string_of(parse_json(line), "line");
        if (!text.starts_with(answer_mark)) continue;
        return read_answer(text.substr(std::string_view(answer_mark).size()), probe.begun_ms, wall_now_ms(),
                           probe.answer);
    }
    const std::string reason = string_of(probe.last, "reason");
    probe.answer.failed = node_text(probe_has_ended(probe.last) ? reason
                                                                : "no answer within 2 minutes: the run is " +
                                                                      string_of(probe.last, "state") + ": " + reason);
}

void remove_probe(Api& api, const Probe& probe) {
    const std::string target = "/v1/runs/" + url_part(probe.run);
    if (!probe_has_ended(probe.last)) (void)api.post(target + "/stop", {{"now", true}});
    // Removes the probe's run. If the run has not ended yet, the head refuses, and the run stays.
    (void)api.remove(target + "?files=true&dry_run=false");
}

}  // namespace

void read_answer(const std::string& line, std::int64_t begun_ms, std::int64_t ended_ms, NodeAnswer& answer) {
    const json seen = parse_json(line);
    if (!seen.is_object()) {
        answer.failed = "the line of the program there is not JSON";
        return;
    }
    answer.python = node_text_in(seen, "python");
    answer.executable = node_text_in(seen, "executable");
    answer.torch = node_text_in(seen, "torch");
    answer.torch_error = node_text_in(seen, "torch_error");
    answer.rtrain = node_text_in(seen, "rtrain");
    answer.accelerator = node_text_in(seen, "accelerator");
    if (const json gpus = seen.value("gpus", json()); gpus.is_number_unsigned() && gpus < 1'000)
        answer.drivers_gpus = gpus.get<std::int64_t>();
    if (const json time = seen.value("time_ms", json()); time.is_number_unsigned()) {
        constexpr std::uint64_t time_most = std::uint64_t{1} << 53;
        const auto there = static_cast<std::int64_t>(std::min(time.get<std::uint64_t>(), time_most));
        answer.ahead_ms = there > ended_ms ? there - ended_ms : there < begun_ms ? there - begun_ms : 0;
    }
    const json unreachable = seen.value("unreachable", json());
    for (const json& address : unreachable.is_array() ? unreachable : json::array())
        if (address.is_string() && answer.unreachable.size() < probed_addresses_max)
            answer.unreachable.push_back(node_text(address.get<std::string>()));
}

std::vector<NodeAnswer> probe_nodes(Invocation& call, Api& api, const json& nodes) {
    std::vector<std::string> addresses;
    for (const json& node : nodes)
        if (const std::string address = agent_address_of(node);
            !address.empty() && addresses.size() < probed_addresses_max)
            addresses.push_back(address);
    std::vector<Probe> probes;
    for (const json& node : nodes) {
        Probe& probe = probes.emplace_back();
        probe.answer.node = string_of(node, "node");
        probe.begun_ms = wall_now_ms();
        const Result<json> run = submit_probe(call, api, node, addresses);
        if (run)
            probe.run = string_of(*run, "run_id");
        else
            probe.answer.failed = run.error().message;
    }
    await_probes(api, probes);
    std::vector<NodeAnswer> answers;
    for (Probe& probe : probes) {
        if (!probe.run.empty()) {
            if (probe.last.is_null()) probe.last = json::object();
            if (probe_has_ended(probe.last)) check_probe_storage(call, api, probe);
            read_probe(api, probe);
            remove_probe(api, probe);
        }
        answers.push_back(std::move(probe.answer));
    }
    return answers;
}

}  // namespace rtrain::cmd
