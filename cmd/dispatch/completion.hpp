// Shell completion. Three small scripts call `rtrain __complete WORD...`, which answers from the command table and from
// the live cluster.
#pragma once

#include <string>
#include <vector>

#include "cmd/line/invocation.hpp"

namespace rtrain::cmd {

std::string completion_script(const std::string& shell);  // script for the shell; empty if the shell is not supported
// Returns candidates for the last of `words`, which may be empty. Never fails: if the cluster does not answer, the
// names from the cluster are left out.
std::vector<std::string> completions(Invocation& call, const std::vector<std::string>& words);

}  // namespace rtrain::cmd
