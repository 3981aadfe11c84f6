// Daemons on this machine: started in the background, found by their pid file, ended through a pidfd, never by name.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.hpp"

namespace rtrain::cmd {

struct Running {
    int pid = 0;
    std::string facts;  // what the daemon wrote beside its pid: "127.0.0.1:7433"
};

// <data>/<name>.pid: pid, the process's start time (so that a reused pid is not taken for it) and facts.
Status write_pid_file(const std::string& path, const std::string& facts);
void remove_pid_file(const std::string& path);                  // only our own
std::optional<Running> read_pid_file(const std::string& path);  // none: nobody runs
// Returns when process `pid` started, in clock ticks since boot. Returns an empty text if there is no such process.
std::string start_time(int pid);
// SIGTERM, then a wait; false: it had not ended in time and got SIGKILL.
Result<bool> end_process(const Running& running, const std::string& pid_file, std::int64_t wait_ms);

// A process that runs behind answers its starter by this. The starter waits until every process has answered or let go.
struct Starter {
    std::function<void(const std::string&)> hand_over;  // once
    std::function<void()> let_go;  // this process leaves the answer to one that it has forked; later ones have none
};
// Forks `daemon` into a session of its own, its output appended to `log_file`. Returns what it handed over, or, when it
// ended before, its error or the log's last lines.
using Background = std::function<Result<int>(const Starter& starter)>;
struct Detached {
    int pid = 0;
    std::string handed_over;
};
Result<Detached> detach(const std::string& log_file, std::int64_t wait_ms, const Background& daemon);

// Has the kernel send this process SIGTERM when process `pid` has ended, however it did (0: nobody is watched).
void end_with(int pid);

Status make_directory(const std::string& path);  // 0700 when it has to be made
std::string absolute(const std::string& path);

}  // namespace rtrain::cmd
