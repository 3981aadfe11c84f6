// Sends SIGTERM to the process of a rank that expects it. machine/stop_targets.hpp chooses that process.
#pragma once

#include <optional>

#include "daemon/agent/machine/stop_targets.hpp"

namespace rtrain::agent {

// Sends SIGTERM to the targets. Holds each process, and its parents up to `main`, by a pidfd before it is compared with
// the decision. So no process with a reused pid gets the signal. Does nothing if `main` has ended. `holder`: the
// process that holds the rank's place.
void send_stop_signal(const ProcessId& main, const std::optional<ProcessId>& holder);

}  // namespace rtrain::agent
