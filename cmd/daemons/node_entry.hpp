// Starts an agent from the command line: joins the cluster with a token, and runs the agent in the foreground or
// background.
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
    std::string head;                        // address of the head: HOST:PORT
    std::vector<std::string> other_heads{};  // further addresses of the head: HOST:PORT each
    std::string token;                       // join token; may be empty if the node has joined before
    std::string name;
    // address at which other agents reach this one; empty: this machine's address on its connection to the head
    std::string address;
    std::uint16_t peer_port = 7434;
    std::vector<std::string> pass_env{};
    std::string resources, fake_gpus, accelerator_type, scratch;
    std::int64_t scratch_quota = 0;   // bytes; 0: no quota
    std::int64_t disk_reserve = -1;   // bytes that the agent keeps free on its disk; negative: the agent's own default
    std::int64_t reserve_memory = 0;  // bytes of the machine's memory that the node does not offer to jobs
    MemoryLimits memory_limits = MemoryLimits::automatic;
    std::map<std::string, std::string> labels;
    bool allow_root_workers = false, allow_setuid = false;
    std::string storage_rules;  // path of a file with storage rules; empty: none
    // On SIGTERM, the time in ms for which the node is drained before the agent ends. 0: no drain; the agent ends at
    // once, and its workers run on until the next agent of this node takes them over.
    std::int64_t drain_on_sigterm_ms = 0;
    // id of a process: when it ends, the agent and its workers end too; 0: the agent does not depend on a process
    int until_pid = 0;
    WarmMode warm = WarmMode::automatic;
    std::int64_t warm_memory = 0;  // bytes for warm worker processes; 0: the agent's own default
    std::int64_t agents_here = 1;  // number of agents that `rtrain up` starts on this machine
};
inline const char* node_pid_file = "/agent.pid";

// Sets `bytes` to the amount that the flag gives. Changes nothing if the flag was not given.
Status take_amount(const Arguments& arguments, const std::string& flag, const std::string& example,
                   std::int64_t& bytes);
std::vector<Flag> memory_flags();  // the flags --reserve-memory and --memory-limits
std::vector<Flag> warm_flags();    // the flags --warm, --no-warm and --warm-memory
Status take_warm_flags(const Arguments& arguments, NodeOptions& options);
Status take_memory_flags(const Arguments& arguments, NodeOptions& options);
// Parses the values of a flag that may be given several times: "NAME,PREFIX*".
Result<std::vector<std::string>> parse_pass_env(const std::vector<std::string>& lists);
std::string default_node_name();                 // the short host name of this machine
std::string node_data(const std::string& name);  // data directory of the node: <data home>/nodes/<name>
Status join_node(const NodeOptions& options);  // gets the node's certificate from the head, unless there is one already
// Returns true if an agent of this node runs and has joined the cluster to which the token belongs.
Result<bool> node_serves(const NodeOptions& options);
// Runs the agent in this process, with a pid file, until SIGTERM or `node leave`. Calls `started` once with {node,
// head, pid, data, registered}: when the head lists the node, or when the head has refused the node or has not
// answered.
Status run_node(const NodeOptions& options, const std::function<void(const nlohmann::json&)>& started);
Result<nlohmann::json> run_node_detached(const NodeOptions& options);

}  // namespace rtrain::cmd
