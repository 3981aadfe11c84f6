// Starts daemons on this machine in the background, finds them by their pid files, and ends them through pidfds.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace rtrain::cmd {

struct Running {
    int pid = 0;
    std::string facts;  // a text that the daemon wrote beside its pid: "127.0.0.1:7433"
};

// Writes <data>/<name>.pid: pid, start time of the process, and `facts`. The start time reveals a reused pid.
Status write_pid_file(const std::string& path, const std::string& facts);
void remove_pid_file(const std::string& path);                  // removes it only if this process wrote it
std::optional<Running> read_pid_file(const std::string& path);  // nullopt: the process in the file does not run
// Returns when process `pid` started, in clock ticks since boot. Returns an empty text if there is no such process.
std::string start_time(int pid);
// Sends SIGTERM and waits. Returns false if the process did not end in time and was killed with SIGKILL.
Result<bool> end_process(const Running& running, const std::string& pid_file, std::int64_t wait_ms);

// The connection of a background process to the process that started it. The starter waits until a process calls
// `hand_over`, or until all of them have closed the connection.
struct Starter {
    std::function<void(const std::string&)> hand_over;  // sends the answer to the starter; called once
    // Closes this process's end of the connection. To be called by a process that has forked another one which will
    // call `hand_over`. Processes that it forks later do not inherit the connection.
    std::function<void()> let_go;
};
// Forks `daemon` into a new session and appends its output to `log_file`. Returns the text that the daemon handed over.
// If the daemon ended before, returns its error, or the last lines of the log.
using Background = std::function<Result<int>(const Starter& starter)>;
struct Detached {
    int pid = 0;
    std::string handed_over;
};
Result<Detached> detach(const std::string& log_file, std::int64_t wait_ms, const Background& daemon);

// Lets this process receive SIGTERM when process `pid` ends for any reason. Does nothing for pid 0.
void end_with(int pid);

Status make_directory(const std::string& path);  // makes the directory with mode 0700
std::string absolute(const std::string& path);

}  // namespace rtrain::cmd
