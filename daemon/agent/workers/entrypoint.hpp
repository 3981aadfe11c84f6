// An entrypoint written as one string runs through `sh -c`. When it is one plain command, the shell is told to become
// it, so that the worker's pid, its signals and the way it dies are the program's own and not a shell's.
#pragma once

#include <string>
#include <vector>

namespace rtrain::agent {

// {"sh", "-c", "python train.py"} gives {"sh", "-c", "exec python train.py"}; everything else comes back as it is:
// shell syntax, assignments in front, and words that no program in `path` (colon-separated) answers to, such as
// builtins.
std::vector<std::string> without_shell_layer(std::vector<std::string> entrypoint, const std::string& path);

// Returns the file that `program` names on `path`, as far as this thread's rights at files reach. Empty: there is none.
std::string program_on_path(const std::string& program, const std::string& path);

}  // namespace rtrain::agent
