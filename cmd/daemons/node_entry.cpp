// Starts an agent from flags, in the foreground or in the background.
#include "cmd/daemons/node_entry.hpp"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_text.hpp"
#include "cmd/daemons/supervisor.hpp"
#include "cmd/line/settings.hpp"
#include "cmd/text/process.hpp"
#include "cmd/text/units.hpp"
#include "daemon/agent/agent.hpp"
#include "daemon/agent/hardware/inventory.hpp"
#include "daemon/agent/preparation/storage_access.hpp"
#include "daemon/agent/workers/environment.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

Result<AgentOptions> agent_options(const NodeOptions& options) {
    Result<HostPort> where = parse_host_port(options.head, 7433);
    if (!where) return where.error();
    AgentOptions agent;
    agent.data_dir = options.data;
    agent.head_host = where->host;
    agent.head_port = where->port;
    for (const std::string& other : options.other_heads) {
        Result<HostPort> there = parse_host_port(other, 7433);
        if (!there) return there.error();
        agent.other_heads.push_back({.host = there->host, .port = there->port});
    }
    agent.node = options.name;
    agent.address = options.address;
    agent.peer_port = options.peer_port;
    agent.allow_root_workers = options.allow_root_workers;
    agent.storage_rules = options.storage_rules;
    if (!agent.storage_rules.empty())  // faulty rules are reported before a join token is used up
        if (auto rules = agent::load_storage_rules(agent.storage_rules); !rules) return rules.error();
    agent.pass_env = options.pass_env;
    agent.allow_setuid = options.allow_setuid;
    agent.warm = options.warm;
    agent.warm_memory = options.warm_memory;
    agent.agents_here = options.agents_here;
    agent.end_workers = options.until_pid != 0;
    agent.drain_on_sigterm_ms = options.drain_on_sigterm_ms;
    agent.scratch = options.scratch;
    agent.scratch_quota = options.scratch_quota;
    if (options.disk_reserve >= 0) agent.disk_reserve = options.disk_reserve;
    agent.reserve_memory = options.reserve_memory;
    agent.memory_limits = options.memory_limits;
    agent.fake_gpus = options.fake_gpus;
    agent.accelerator_type = options.accelerator_type;
    for (const auto& [key, value] : options.labels) agent.labels[key] = value;
    if (options.resources.empty()) return agent;
    Result<Resources> resources = agent::parse_resources(options.resources);
    if (!resources) return resources.error();
    agent.resources = std::move(*resources);
    return agent;
}

}  // namespace

Status take_amount(const Arguments& arguments, const std::string& flag, const std::string& example,
                   std::int64_t& bytes) {
    if (!arguments.has(flag)) return Done{};
    const auto amount = parse_bytes(arguments.text(flag));
    if (!amount)
        return Error{.code = ErrorCode::usage,
                     .message = "--" + flag + ": \"" + arguments.text(flag) + "\" is not an amount of bytes",
                     .next = "for example --" + flag + " " + example};
    bytes = *amount;
    return Done{};
}

std::vector<Flag> memory_flags() {
    return {{.name = "reserve-memory",
             .takes = Value::text,
             .shown = "SIZE",
             .help = "of the memory, for what else runs here: the node offers so much less (default 0)"},
            {.name = "memory-limits",
             .takes = Value::text,
             .shown = "HOW",
             .help = "how workers are held to the memory they asked for: auto, cgroup, watch or off (default auto)"}};
}

Status take_memory_flags(const Arguments& arguments, NodeOptions& options) {
    if (Status fine = take_amount(arguments, "reserve-memory", "4GiB", options.reserve_memory); !fine) return fine;
    const std::string how = arguments.text("memory-limits", "auto");
    const std::map<std::string, MemoryLimits> known{{"auto", MemoryLimits::automatic},
                                                    {"off", MemoryLimits::off},
                                                    {"watch", MemoryLimits::watch},
                                                    {"cgroup", MemoryLimits::cgroup}};
    const auto entry = known.find(how);
    if (entry == known.end())
        return Error{.code = ErrorCode::usage,
                     .message = "--memory-limits: \"" + how + "\" is none of auto, cgroup, watch, off",
                     .next = "for example --memory-limits watch"};
    options.memory_limits = entry->second;
    return Done{};
}

std::vector<Flag> warm_flags() {
    return {
        {.name = "warm",
         .shown = "HOW",
         .help = "fork Python workers from processes that have imported torch: off (the default), auto or on",
         .choices = "auto|on|off"},
        {.name = "no-warm", .help = "start each worker with its own imports, as --warm=off"},
        {.name = "warm-memory",
         .takes = Value::text,
         .shown = "SIZE",
         .help = "of these processes together (with auto: a tenth of the node's memory, at most 8GiB; with on: 2GiB)"}};
}

Status take_warm_flags(const Arguments& arguments, NodeOptions& options) {
    const std::map<std::string, WarmMode> modes{
        {"auto", WarmMode::automatic}, {"on", WarmMode::on}, {"off", WarmMode::off}};
    options.warm = modes.at(arguments.text("warm", arguments.has("warm") ? "on" : "off"));
    if (arguments.has("no-warm")) {
        if (arguments.has("warm") && options.warm != WarmMode::off)
            return Error{.code = ErrorCode::usage,
                         .message = "--no-warm turns warm starts off, and --warm turns them on",
                         .next = "leave out one of the two"};
        options.warm = WarmMode::off;
    }
    return take_amount(arguments, "warm-memory", "4GiB", options.warm_memory);
}

Result<std::vector<std::string>> parse_pass_env(const std::vector<std::string>& lists) {
    std::vector<std::string> names;
    for (const std::string& list : lists) {
        std::istringstream words(list + (list.empty() ? "," : ""));
        for (std::string name; std::getline(words, name, ',');) {
            if (const std::string why = agent::wrong_pass_env(name); !why.empty())
                return Error{.code = ErrorCode::usage,
                             .message = "--pass-env: " + why,
                             .next = "for example --pass-env LD_LIBRARY_PATH,NCCL_*"};
            names.push_back(name);
        }
    }
    return names;
}

std::string default_node_name() {
    char name[256] = "node";
    gethostname(name, sizeof name - 1);
    const std::string whole = name;
    return whole.substr(0, whole.find('.'));
}

std::string node_data(const std::string& name) { return data_home() + "/nodes/" + name; }

Status join_node(const NodeOptions& options) {
    Result<AgentOptions> agent = agent_options(options);
    if (!agent) return agent.error();
    return join(*agent, options.token);
}

Result<bool> node_serves(const NodeOptions& options) {
    Result<AgentOptions> agent = agent_options(options);
    if (!agent) return agent.error();
    return serves_as_joined(*agent, options.token);
}

Status run_node(const NodeOptions& options, const std::function<void(const json&)>& started) {
    Result<AgentOptions> agent = agent_options(options);
    if (!agent) return agent.error();
    const std::string pid_file = options.data + node_pid_file;
    const auto serves = [&]() -> Status {
        if (Status written = write_pid_file(pid_file, options.head); !written) return written;
        end_with(options.until_pid);
        return Done{};
    };
    const Status served = run_agent(*agent, serves, [&](bool registered) {
        started({{"node", options.name},
                 {"head", options.head},
                 {"pid", getpid()},
                 {"data", options.data},
                 {"registered", registered}});
    });
    remove_pid_file(pid_file);
    return served;
}

Result<json> run_node_detached(const NodeOptions& options) {
    constexpr std::int64_t wait_ms = 30'000;
    const auto daemon = [&](const DaemonStart& start) -> Result<int> {
        if (Status joined = join_node(options); !joined) return joined.error();
        const Status served = run_node(options, [&](const json& node) { start.hand_over(json_text(node)); });
        if (!served) return served.error();
        return 0;
    };
    const std::string log_file = options.data + "/agent.log";
    Result<Detached> started = detach_supervised(log_file, options.data + node_pid_file, wait_ms, daemon);
    if (!started) return started.error();
    return answer_of(*started, log_file);
}

}  // namespace rtrain::cmd
