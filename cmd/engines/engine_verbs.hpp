// The verbs that run rtrain on machines of other systems: rows of the command table.
#pragma once

#include <vector>

#include "cmd/line/command.hpp"

namespace rtrain::cmd {

std::vector<Command> kubernetes_commands();
std::vector<Command> slurm_commands();

}  // namespace rtrain::cmd
