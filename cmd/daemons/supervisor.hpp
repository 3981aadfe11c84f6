// The supervisor of a detached daemon (`rtrain up`, --detach): its parent, which starts it again after it was killed or
// has ended with a temporary error. The daemon's own process writes <name>.pid, the supervisor <name>.pid.supervisor.
// To end the daemon, a signal is sent to the supervisor, which passes it on and ends too.
//
//   detach ─► supervisor ─fork─► daemon ─ready─► the starter has its answer
//                 ▲  pause          │ killed, exit 5 7 8 10 ...
//                 └─────────────────┘ exit 0 2 3 4 6 11, SIGTERM to the supervisor: both end
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cmd/text/process.hpp"

namespace rtrain::cmd {

// The end of a daemon: an exit code, or the signal that killed it.
struct DaemonEnd {
    int exit_code = 0;
    int signal = 0;
    std::int64_t ran_ms = 0;
};
// Returns the pause in ms before the daemon's next start. `pause_before_ms`: the previous pause; 0: there was none.
// Returns nullopt if the daemon is not started again: after the exit codes that RestartPreventExitStatus lists in
// configs/systemd.
std::optional<std::int64_t> pause_before_restart(const DaemonEnd& end, std::int64_t pause_before_ms);

struct DaemonStart {
    // to be called once the daemon serves; sends the text to the starter
    std::function<void(const std::string&)> hand_over;
    bool again = false;  // true: the supervisor has started the daemon again
};
using Daemon = std::function<Result<int>(const DaemonStart& start)>;
// Forks a supervisor and its daemon, as `detach` does. A daemon that ends before the hand-over is not started again.
Result<Detached> detach_supervised(const std::string& log_file, const std::string& pid_file, std::int64_t wait_ms,
                                   const Daemon& daemon);
// Returns the JSON object that the daemon handed over. Otherwise the Error names the daemon's log.
Result<nlohmann::json> answer_of(const Detached& started, const std::string& log_file);

// Returns the running daemon of a pid file. While its supervisor waits to start it again, returns the supervisor.
// Returns nullopt if neither runs.
std::optional<Running> read_daemon(const std::string& pid_file);
struct EndedDaemon {
    int pid = 0;
    bool killed = false;  // true: the daemon did not end in time, and was killed
};
// ends the daemon of a pid file, and its supervisor; nullopt: no daemon was running
std::optional<Result<EndedDaemon>> end_daemon(const std::string& pid_file, std::int64_t wait_ms);

}  // namespace rtrain::cmd
