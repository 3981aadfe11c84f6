// The facts that a worker gets about its place, in its environment and in the context of its welcome.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/agent/performers/live_attempts.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/agent/workers/environment.hpp"

namespace rtrain::agent {

// Returns the place. `start` contains the attempt, the worker's directory and its current directory.
WorkerPlace place_of(const ThisNode& node, const AttemptContext& context, const WorkerStart& start);
std::string context_json(const ThisNode& node, const LiveAttempt& attempt, std::uint32_t rank);

}  // namespace rtrain::agent
