// Starts a head from the command line: options from flags, the pid file, and the facts that are printed once it serves.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cmd/client/api.hpp"
#include "cmd/line/invocation.hpp"
#include "daemon/head/head.hpp"

namespace rtrain::cmd {

std::string head_data(const Arguments& arguments);  // --data, else <data home>/head
inline const char* head_pid_file = "/head.pid";

// Returns true if a flag or variable names a head by its address or context.
bool names_a_cluster(const Arguments& arguments);
// Fails if flags name two heads: --data names one of this machine, --context or --address another.
Status check_one_head(const Arguments& arguments);
// Connects to the head that runs on `data`: by the settings if they belong to that head, else by the context with its
// authority.
Result<Api> open_head_in(Invocation& call, const std::string& data);

// The facts about a started head for people and programs; the text that a detached head hands over.
nlohmann::json started_json(const HeadOptions& options, const HeadListening& started);
// Serves in this process, with a pid file. `ready` gets started_json.
Status serve(const HeadOptions& options, const std::function<void(const nlohmann::json&)>& ready);
Result<nlohmann::json> serve_detached(const HeadOptions& options, int until_pid = 0);  // ends when that process ends
// Adds the cluster to the user's configuration: a new context at the first start, its address at later ones. Returns
// the context's name.
Result<std::string> keep_context(Invocation& call, const nlohmann::json& started);
std::string reachable_host(const std::string& bound);  // for "0.0.0.0": this machine's own address

}  // namespace rtrain::cmd
