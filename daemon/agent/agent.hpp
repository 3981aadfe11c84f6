// The agent of a node: serves a cluster that the node has joined, in the foreground. See README.md for the flow.
#pragma once

#include <functional>

#include "daemon/agent/base/options.hpp"
#include "daemon/agent/peers/joining.hpp"

namespace rtrain {

// Serves until SIGTERM or SIGINT. Workers stay alive then (unless `end_workers` is set), and the next start adopts
// them. With `drain_on_sigterm_ms` SIGTERM drains the node first, so that no worker is left. Calls `serves` once, when
// nothing can keep the agent from serving any more. An error that it returns ends the agent. Calls `registered` once
// after that: with true if the head lists the node, with false if the head has refused the node or has not answered
// within 10 s. In both cases the agent continues to connect to the head.
Status run_agent(const AgentOptions& options, const std::function<Status()>& serves,
                 const std::function<void(bool)>& registered);

}  // namespace rtrain
