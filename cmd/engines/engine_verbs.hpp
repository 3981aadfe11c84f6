// rtrain on machines that others hand out: rows of the command table.
#pragma once

#include <vector>

#include "cmd/line/command.hpp"

namespace rtrain::cmd {

std::vector<Command> kubernetes_commands();
std::vector<Command> slurm_commands();

}  // namespace rtrain::cmd
