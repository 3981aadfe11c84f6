// `rtrain node simulate`, a row of the command table.
#pragma once

#include "cmd/line/command.hpp"

namespace rtrain::cmd {

std::vector<Command> simulate_commands();

}  // namespace rtrain::cmd
