// Shell completion: three small scripts that all ask `rtrain __complete WORD...`, which answers from the command table
// and from the live cluster.
#pragma once

#include <string>
#include <vector>

#include "cmd/line/invocation.hpp"

namespace rtrain::cmd {

std::string completion_script(const std::string& shell);  // empty: no such shell
// Candidates for the last of `words` (which may be empty). Never fails: a cluster that does not answer has no names.
std::vector<std::string> completions(Invocation& call, const std::vector<std::string>& words);

}  // namespace rtrain::cmd
