#include "daemon/agent/performers/workers/worker_place.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <nlohmann/json.hpp>

#include "base/json_text.hpp"
#include "daemon/agent/base/log.hpp"
#include "daemon/agent/preparation/start_directory.hpp"
#include "daemon/agent/workers/entrypoint.hpp"

namespace rtrain::agent {
namespace {

using nlohmann::json;

// Returns the network interface with this address; empty if there is none, or if the address is not numeric IPv4.
std::string interface_of(const std::string& address) {
    in_addr wanted{};
    ifaddrs* all = nullptr;
    if (::inet_pton(AF_INET, address.c_str(), &wanted) != 1 || ::getifaddrs(&all) != 0) return {};
    std::string name;
    for (const ifaddrs* interface = all; interface; interface = interface->ifa_next) {
        if (!interface->ifa_addr || interface->ifa_addr->sa_family != AF_INET) continue;
        const auto* at = reinterpret_cast<const sockaddr_in*>(interface->ifa_addr);
        if (at->sin_addr.s_addr == wanted.s_addr) name = interface->ifa_name;
    }
    ::freeifaddrs(all);
    return name;
}

// Returns the workers' PATH, on which `python` is the job's interpreter even if the system has only `python3`.
std::string path_with_python(const std::string& path, const std::string& interpreter, const std::string& tools) {
    std::string python = program_on_path(interpreter, path);
    if (python.empty() && program_on_path("python", path).empty()) python = program_on_path("python3", path);
    if (python.empty() || (interpreter == "python3" && !program_on_path("python", path).empty())) return path;
    const std::string script = "#!/bin/sh\nexec '" + python + "' \"$@\"\n";
    if (python.find('\'') != std::string::npos || !make_directory(tools, 0755)) return path;
    if (!write_whole(tools + "/python", script, 0755, Durable::no)) return path;
    return tools + ":" + path;
}

std::string tool_path_of(const ThisNode& node, const AttemptContext& context, AttemptKey key) {
    const auto inherited = node.inherited.find("PATH");
    const std::string path = inherited == node.inherited.end() ? "/usr/local/bin:/usr/bin:/bin" : inherited->second;
    const std::string venv = context.setup ? context.setup->virtual_env : "";
    if (!venv.empty()) return venv + "/bin:" + path;  // its bin/ has a `python`
    return path_with_python(path, context.job.interpreter, node.files.attempt(key) + "/bin");
}

std::string run_path_of(const AttemptContext& context) {
    if (context.store->local()) return context.store->local_path(context.prepare.run_name);
    const std::string& storage = context.prepare.storage_path;
    return (storage.empty() || storage.ends_with('/') ? storage : storage + "/") + context.prepare.run_name;
}

// Returns the TMPDIR of the attempt's workers: a short name, or the scratch directory's own path.
std::string tmpdir_of(const ThisNode& node, AttemptKey key) {
    const std::string scratch = node.files.scratch(key);
    const auto name = node.short_names.name_of(scratch);
    if (name) return *name;
    warn("TMPDIR is " + scratch + ", where a data loader's sockets may have no room: " + name.error().message);
    return scratch;
}

json ranks_by_node(const protocol::Prepare& prepare) {
    json out = json::object();
    for (const protocol::PeerNode& peer : prepare.nodes) out[peer.node] = peer.ranks;
    return out;
}

}  // namespace

WorkerPlace place_of(const ThisNode& node, const AttemptContext& context, const WorkerStart& start) {
    const AttemptKey key = start.attempt;
    WorkerPlace place{.node = node.name(),
                      .run_path = run_path_of(context),
                      .socket = node.socket_path,
                      .key = context.key,
                      .worker_library = node.worker_library,
                      .scratch = node.files.scratch(key),
                      .tmpdir = tmpdir_of(node, key),
                      .working_dir = context.setup ? context.working_dir : "",
                      .start_dir = start.cwd,
                      .code_list = start.directory + code_list_name,
                      .error_file = start.cwd + "/.torchelastic-error.json",
                      .driver_file = context.driver_file.empty() ? "" : node.files.driver(key),
                      .head_address = host_port(node.identity),
                      .head_ca = node.identity.ca,
                      .inherited = node.inherited};
    for (const GpuDevice& device : node.inventory.devices)
        place.devices.push_back(device.fake || device.uuid.empty() ? std::to_string(place.devices.size())
                                                                   : device.uuid);
    for (const protocol::PeerNode& peer : context.prepare.nodes)
        if (peer.node == node.name()) place.interface = interface_of(peer.address);
    place.tool_path = tool_path_of(node, context, key);
    return place;
}

std::string context_json(const ThisNode& node, const LiveAttempt& attempt, std::uint32_t rank) {
    const protocol::Prepare& prepare = attempt.context->prepare;
    std::uint32_t local_rank = 0;
    for (const protocol::LaunchWorker& worker : attempt.launch.workers)
        if (worker.rank == rank) local_rank = worker.local_rank;
    json context{{"run_id", prepare.run_id},
                 {"run_name", prepare.run_name},
                 {"attempt", attempt.number},
                 {"reports_before", attempt.start_state.reports_before},
                 {"world_rank", rank},
                 {"world_size", prepare.world_size},
                 {"local_rank", local_rank},
                 {"local_world_size", attempt.launch.workers.size()},
                 {"node_rank", attempt.launch.node_rank},
                 {"node", node.name()},
                 {"storage_path", prepare.storage_path},
                 {"run_path", run_path_of(*attempt.context)},
                 {"user", prepare.user},
                 {"checkpoint_upload", attempt.context->job.upload},
                 {"scratch_dir", node.files.scratch(key_of(prepare.attempt))},
                 {"world_ranks_by_node", ranks_by_node(prepare)}};
    if (prepare.workers_before > 0) {
        context["previous_world_size"] = prepare.workers_before;
        context["previous_end"] = prepare.ended_before;
    }
    return json_text(context);
}

}  // namespace rtrain::agent
