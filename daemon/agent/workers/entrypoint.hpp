// An entrypoint written as one string runs through `sh -c`. If it is one plain command, `exec` is added, so that the
// shell becomes the program. Then the worker's pid, its signals and its end are the program's own.
#pragma once

#include <string>
#include <vector>

namespace rtrain::agent {

// Returns {"sh", "-c", "exec python train.py"} for {"sh", "-c", "python train.py"}. Returns all other commands
// unchanged: shell syntax, leading assignments, and words that name no program in `path` (colon-separated), such as
// builtins.
std::vector<std::string> without_shell_layer(std::vector<std::string> entrypoint, const std::string& path);

// Returns the file that `program` names on `path`, as far as this thread's rights at files reach. Empty: there is none.
std::string program_on_path(const std::string& program, const std::string& path);

}  // namespace rtrain::agent
