// The rows of `rtrain audit` in the table of verbs.
#pragma once

#include <vector>

#include "cmd/command.hpp"

namespace rtrain::cmd {

std::vector<Command> audit_commands();

}  // namespace rtrain::cmd
