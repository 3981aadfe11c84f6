// The agent of a node: serves a cluster that the node has joined, in the foreground. See README.md for the flow.
#pragma once

#include <functional>

#include "daemon/agent/base/options.hpp"
#include "daemon/agent/peers/joining.hpp"

namespace rtrain {

// Serves until SIGTERM or SIGINT, which leave the workers running (unless `end_workers`): the next start adopts them.
// With `drain_on_sigterm_ms` SIGTERM drains the node first, and leaves no worker.
// `ready` is called once, when nothing is left that could keep the agent from serving; its error ends the agent.
Status run_agent(const AgentOptions& options, const std::function<Status()>& ready);

}  // namespace rtrain
