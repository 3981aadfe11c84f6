// rtrain head install, rtrain node install.
#pragma once

#include <vector>

#include "cmd/line/command.hpp"

namespace rtrain::cmd {

std::vector<Command> install_commands();

}  // namespace rtrain::cmd
