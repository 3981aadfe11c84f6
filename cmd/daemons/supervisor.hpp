// The supervisor of a daemon that was started behind (`rtrain up`, --detach): its parent, which starts it again when it
// was killed or ended by what may mend itself. The daemon's own process writes <name>.pid, the supervisor
// <name>.pid.supervisor: who ends the daemon tells the supervisor, which passes the signal on and ends as well.
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

// How a daemon ended: an exit code, or the signal that killed it.
struct DaemonEnd {
    int exit_code = 0;
    int signal = 0;
    std::int64_t ran_ms = 0;
};
// Returns the pause before it is started again, after the one before this (0: none so far); nothing: it is not.
// Exit codes as RestartPreventExitStatus of configs/systemd.
std::optional<std::int64_t> pause_before_restart(const DaemonEnd& end, std::int64_t pause_before_ms);

struct DaemonStart {
    std::function<void(const std::string&)> hand_over;  // once it serves
    bool again = false;                                 // by its supervisor
};
using Daemon = std::function<Result<int>(const DaemonStart& start)>;
// Forks a supervisor and its daemon, as `detach`. A daemon that ends before it has handed over is not started again.
Result<Detached> detach_supervised(const std::string& log_file, const std::string& pid_file, std::int64_t wait_ms,
                                   const Daemon& daemon);
// Returns the JSON object that the daemon handed over. Where it is none, the error names the daemon's log.
Result<nlohmann::json> answer_of(const Detached& started, const std::string& log_file);

// The daemon of a pid file, or its supervisor while it waits to start it again; none: neither runs.
std::optional<Running> read_daemon(const std::string& pid_file);
struct EndedDaemon {
    int pid = 0;
    bool killed = false;  // it had not ended in time
};
std::optional<Result<EndedDaemon>> end_daemon(const std::string& pid_file, std::int64_t wait_ms);  // none: nobody ran

}  // namespace rtrain::cmd
