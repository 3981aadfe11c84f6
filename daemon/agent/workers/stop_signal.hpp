// SIGTERM to a rank, for the process that its program expects to get it: machine/stop_targets.hpp says which.
#pragma once

#include <optional>

#include "daemon/agent/machine/stop_targets.hpp"

namespace rtrain::agent {

// Sends SIGTERM to the targets. Each process is held by a pidfd before it is compared with what was decided, and its
// parents up to `main` are held with it: no process outside of the rank gets the signal under a number that was given
// again. Does nothing where `main` has ended. `holder`: the process that holds the rank's place.
void send_stop_signal(const ProcessId& main, const std::optional<ProcessId>& holder);

}  // namespace rtrain::agent
