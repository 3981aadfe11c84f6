// Runs one command of the operator on a separate thread, and waits for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rtrain::head {

struct CommandWish {
    std::vector<std::string> words;        // a program's path and its arguments, without a shell
    std::vector<std::string> environment;  // NAME=VALUE, beside PATH, HOME and LANG
    std::string input;                     // the standard input
    std::int64_t timeout_ms = 0;
};
struct CommandEnd {
    int code = 0;  // 128 + n after signal n
    bool timed_out = false;
    std::string output;  // the end of the output of both streams
};
// Runs the command as the leader of a new process group. The group gets SIGTERM at the timeout or with `give_up`, and
// SIGKILL when the command has ended, at the latest five seconds later. It inherits no descriptor, and only HOME of the
// head's environment. An Error means that it was not started.
Result<CommandEnd> run_command(const CommandWish& wish, const std::atomic<bool>& give_up);

// Fails if another user could have replaced the file: the file, all directories above it, and the links on its path
// must be root's or ours, and not writable for others.
Status only_ours(const std::string& path);

}  // namespace rtrain::head
