// Starting an agent from the command line: joining with a token, running in the foreground or behind.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "cmd/line/command.hpp"
#include "daemon/agent/base/options.hpp"

namespace rtrain::cmd {

struct NodeOptions {
    std::string data;                        // the agent's directory; holds its certificate after the first join
    std::string head;                        // HOST:PORT
    std::vector<std::string> other_heads{};  // HOST:PORT each
    std::string token;                       // may be empty when the node has joined before
    std::string name;
    std::string address;  // other agents reach it there; empty: its end of the connection to the head
    std::uint16_t peer_port = 7434;
    std::vector<std::string> pass_env{};
    std::string resources, fake_gpus, accelerator_type, scratch;
    std::int64_t scratch_quota = 0;   // bytes; 0: none
    std::int64_t disk_reserve = -1;   // bytes; less than 0: as many as an agent keeps free without it
    std::int64_t reserve_memory = 0;  // bytes of its memory that the node does not offer
    MemoryLimits memory_limits = MemoryLimits::automatic;
    std::map<std::string, std::string> labels;
    bool allow_root_workers = false, allow_setuid = false;
    std::string storage_rules;             // a file; empty: none
    std::int64_t drain_on_sigterm_ms = 0;  // 0: SIGTERM hands the workers over
    int until_pid = 0;                     // the agent ends with that process, and its workers with it; 0: it stays
    WarmMode warm = WarmMode::automatic;
    std::int64_t warm_memory = 0;  // bytes; 0: as many as an agent has without it
    std::int64_t agents_here = 1;  // that `rtrain up` starts on this machine
};
inline const char* node_pid_file = "/agent.pid";

// Sets `bytes` to the amount that the flag names. A flag that is not there changes nothing.
Status take_amount(const Arguments& arguments, const std::string& flag, const std::string& example,
                   std::int64_t& bytes);
std::vector<Flag> memory_flags();  // --reserve-memory, --memory-limits
std::vector<Flag> warm_flags();    // --warm, --no-warm, --warm-memory
Status take_warm_flags(const Arguments& arguments, NodeOptions& options);
Status take_memory_flags(const Arguments& arguments, NodeOptions& options);
// "NAME,PREFIX*", given once or more.
Result<std::vector<std::string>> parse_pass_env(const std::vector<std::string>& lists);
std::string default_node_name();                 // the host's short name
std::string node_data(const std::string& name);  // <data home>/nodes/<name>
Status join_node(const NodeOptions& options);    // gets the certificate, unless there is one
// Returns whether an agent runs as this node, and has joined the cluster that the token is of.
Result<bool> node_serves(const NodeOptions& options);
// Runs the agent in this process, with a pid file, until SIGTERM or `node leave`. `started` is called once with
// {node, head, pid, data, registered}: when the head lists the node, or when it has refused or not answered.
Status run_node(const NodeOptions& options, const std::function<void(const nlohmann::json&)>& started);
Result<nlohmann::json> run_node_detached(const NodeOptions& options);

}  // namespace rtrain::cmd
