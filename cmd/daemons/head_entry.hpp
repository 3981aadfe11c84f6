// Starts a head from the command line: reads its options from flags, writes its pid file, and prints facts about it
// when it serves.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cmd/client/api.hpp"
#include "cmd/line/invocation.hpp"
#include "daemon/head/head.hpp"

namespace rtrain::cmd {

std::string head_data(const Arguments& arguments);  // data directory of the head: --data, else <data home>/head
inline const char* head_pid_file = "/head.pid";

// Returns true if a flag or variable names a head by its address or context.
bool names_a_cluster(const Arguments& arguments);
// Fails if the flags select two heads: one on this machine by --data, and another one by --context or --address.
Status check_one_head(const Arguments& arguments);
// Connects to the head that runs on `data`. Uses the settings if they belong to that head. Otherwise uses the context
// that has that head's certificate authority.
Result<Api> open_head_in(Invocation& call, const std::string& data);

// Returns facts about a started head as JSON, for people and programs. A detached head sends them to its starter.
nlohmann::json started_json(const HeadOptions& options, const HeadListening& started);
// Runs a head in this process, with a pid file. Calls `ready` with started_json when the head serves.
Status serve(const HeadOptions& options, const std::function<void(const nlohmann::json&)>& ready);
// Starts a head in the background. The head ends when process `until_pid` ends; 0: it does not depend on a process.
Result<nlohmann::json> serve_detached(const HeadOptions& options, int until_pid = 0);
// Adds the cluster to the user's configuration: a new context at the first start, its address at later ones. Returns
// the context's name.
Result<std::string> keep_context(Invocation& call, const nlohmann::json& started);
// host name under which other machines reach the head; for "0.0.0.0" this machine's own address
std::string reachable_host(const std::string& bound);

}  // namespace rtrain::cmd
