// Runs one command of the operator, and waits for it: on a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rtrain::head {

struct CommandWish {
    std::vector<std::string> words;        // a program by its path, and arguments: no shell reads them
    std::vector<std::string> environment;  // NAME=VALUE, beside PATH, HOME and LANG
    std::string input;                     // its standard input
    std::int64_t timeout_ms = 0;
};
struct CommandEnd {
    int code = 0;  // 128 + n: by signal n
    bool timed_out = false;
    std::string output;  // the end of what it wrote, both streams
};
// The command is the leader of a process group of its own, which gets SIGTERM at the timeout or with `give_up`, and
// SIGKILL when the command has ended, at the latest five seconds later. It inherits no descriptor and nothing of the
// head's environment but HOME. An Error: not started.
Result<CommandEnd> run_command(const CommandWish& wish, const std::atomic<bool>& give_up);

// Refused is a file that somebody else could have put there: it, all directories above it, and the links on the way
// are root's or ours, and others may not write to them.
Status only_ours(const std::string& path);

}  // namespace rtrain::head
