// Runs one command of the operator on a separate thread, and waits for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rtrain::head {

struct CommandWish {
    std::vector<std::string> words;        // path of a program and its arguments; no shell is involved
    std::vector<std::string> environment;  // variables as NAME=VALUE; PATH, HOME and LANG are added
    std::string input;                     // text for the command's standard input
    std::int64_t timeout_ms = 0;
};
struct CommandEnd {
    int code = 0;  // exit code; 128 + n after signal n
    bool timed_out = false;
    std::string output;  // the last bytes of stdout and stderr together
};
// Runs the command as the leader of a new process group, and waits for its end. The group gets SIGTERM at the timeout,
// or when `give_up` is set. It gets SIGKILL when the command has ended, and at the latest five seconds later. The
// command inherits no descriptor, and only HOME of the head's environment. An Error means that it was not started.
Result<CommandEnd> run_command(const CommandWish& wish, const std::atomic<bool>& give_up);

// Fails if another user could have replaced the file. The file, all directories above it, and the links on its path
// must belong to root or to this process's user, and must not be writable for others.
Status only_ours(const std::string& path);

}  // namespace rtrain::head
