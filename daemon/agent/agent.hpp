// The agent of a node: serves a cluster that the node has joined, in the foreground. See README.md for the flow.
#pragma once

#include <functional>

#include "daemon/agent/base/options.hpp"
#include "daemon/agent/peers/joining.hpp"

namespace rtrain {

// Serves until SIGTERM or SIGINT, which leave the workers running (unless `end_workers`): the next start adopts them.
// With `drain_on_sigterm_ms` SIGTERM drains the node first, and leaves no worker.
// `serves` is called once, when nothing is left that could keep the agent from serving; its error ends the agent.
// `registered` is called once after that: with true when the head lists the node, with false when the head has refused
// the node or has not answered within ten seconds. The agent goes on trying either way.
Status run_agent(const AgentOptions& options, const std::function<Status()>& serves,
                 const std::function<void(bool)>& registered);

}  // namespace rtrain
