// Rows of the command table for the verbs that start rtrain through other systems: Kubernetes and Slurm.
#pragma once

#include <vector>

#include "cmd/line/command.hpp"

namespace rtrain::cmd {

std::vector<Command> kubernetes_commands();
std::vector<Command> slurm_commands();

}  // namespace rtrain::cmd
