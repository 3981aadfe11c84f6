// See supervisor.hpp. The supervisor has one thread, which only waits for signals.
#include "cmd/daemons/supervisor.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.hpp"
#include "cmd/daemons/log_rotation.hpp"

namespace rtrain::cmd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t pause_first_ms = 50, pause_most_ms = 10'000;
// ms; if a daemon ran longer than this, the next restart has the first pause again
constexpr std::int64_t settled_ms = 10'000;
// Exit codes after which a daemon is not started again. In this order: success, wrong flags, not found, wrong
// configuration, not authorised (revoked), damaged data.
constexpr std::array not_again{0, 2, 3, 4, 6, 11};

std::int64_t since(Clock::time_point from) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - from).count();
}

sigset_t watched_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
    return set;
}

std::string supervisor_file(const std::string& pid_file) { return pid_file + ".supervisor"; }

class Supervisor {
  public:
    Supervisor(const Daemon& daemon, const Starter& starter, std::string log_file)
        : daemon_(daemon), starter_(starter), log_file_(std::move(log_file)) {}

    // Forks the daemon. In the supervisor's process, returns the supervisor's exit code. In the daemon's process,
    // returns the daemon's exit code.
    Result<int> run(const std::string& pid_file) {
        const sigset_t watched = watched_signals();
        sigprocmask(SIG_BLOCK, &watched, &before_);
        if (Status written = write_pid_file(supervisor_file(pid_file), "supervisor"); !written) return written.error();
        for (bool again = false;; again = true) {
            const Clock::time_point begun = Clock::now();
            const pid_t pid = start();
            if (pid == 0) return in_daemon(again);
            if (pid < 0) return ended(pid_file, 10);
            const int status = wait_for(pid);
            DaemonEnd end{.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
                          .ran_ms = since(begun)};
            was_ready_ = was_ready_ || took_ready_mark();
            const auto pause = ending_ || !was_ready_ ? std::nullopt : pause_before_restart(end, pause_ms_);
            if (!pause) return ended(pid_file, end.signal != 0 ? 128 + end.signal : end.exit_code);
            pause_ms_ = *pause;
            say(pid, end);
            if (!pass(*pause)) return ended(pid_file, 0);
        }
    }

  private:
    pid_t start() {
        if (pipe2(ready_, O_CLOEXEC | O_NONBLOCK) != 0) return -1;
        std::fflush(nullptr);
        const pid_t pid = fork();
        if (pid > 0) close(ready_[1]);
        if (pid > 0) starter_.let_go();
        return pid;
    }

    Result<int> in_daemon(bool again) {
        close(ready_[0]);
        sigprocmask(SIG_SETMASK, &before_, nullptr);
        keep_log_bounded(log_file_);
        const auto serves = [&](const std::string& text) {
            if (write(ready_[1], "r", 1) != 1) std::perror("rtrain: telling the supervisor");
            if (!again) starter_.hand_over(text);
        };
        return daemon_({.hand_over = serves, .again = again});
    }

    bool took_ready_mark() {
        char mark = 0;
        const bool ready = read(ready_[0], &mark, 1) == 1;
        close(ready_[0]);
        return ready;
    }

    // Waits until the daemon ends, and returns its wait status. SIGTERM and SIGINT are passed on to the daemon, and the
    // supervisor ends after it. At SIGHUP, which tools for logs send, the supervisor opens its renamed log again.
    int wait_for(pid_t pid) {
        const sigset_t watched = watched_signals();
        for (;;) {
            int status = 0;
            if (waitpid(pid, &status, WNOHANG) == pid) return status;
            const int number = sigwaitinfo(&watched, nullptr);
            if (number == SIGHUP) follow_log(log_file_);
            if (number != SIGTERM && number != SIGINT) continue;
            ending_ = true;
            kill(pid, SIGTERM);
        }
    }

    // Waits for `ms` milliseconds. Returns false if a signal to end the supervisor arrived meanwhile.
    bool pass(std::int64_t ms) {
        sigset_t ends;
        sigemptyset(&ends);
        for (const int number : {SIGTERM, SIGINT}) sigaddset(&ends, number);
        const timespec time{.tv_sec = ms / 1'000, .tv_nsec = ms % 1'000 * 1'000'000};
        return sigtimedwait(&ends, nullptr, &time) < 0;
    }

    void say(pid_t pid, const DaemonEnd& end) const {
        follow_log(log_file_);
        std::fprintf(stderr, "rtrain supervisor: process %d %s %d after %lld ms; it is started again in %lld ms\n",
                     static_cast<int>(pid), end.signal != 0 ? "was ended by signal" : "ended with exit code",
                     end.signal != 0 ? end.signal : end.exit_code, static_cast<long long>(end.ran_ms),
                     static_cast<long long>(pause_ms_));
    }

    static int ended(const std::string& pid_file, int code) {
        remove_pid_file(supervisor_file(pid_file));
        return code;
    }

    const Daemon& daemon_;
    const Starter& starter_;
    std::string log_file_;
    sigset_t before_{};
    int ready_[2] = {-1, -1};
    bool was_ready_ = false, ending_ = false;
    std::int64_t pause_ms_ = 0;
};

}  // namespace

std::optional<std::int64_t> pause_before_restart(const DaemonEnd& end, std::int64_t pause_before_ms) {
    if (end.signal == 0 && std::find(not_again.begin(), not_again.end(), end.exit_code) != not_again.end())
        return std::nullopt;
    if (pause_before_ms == 0 || end.ran_ms >= settled_ms) return pause_first_ms;
    return std::min(pause_before_ms * 2, pause_most_ms);
}

Result<Detached> detach_supervised(const std::string& log_file, const std::string& pid_file, std::int64_t wait_ms,
                                   const Daemon& daemon) {
    rotate_full_log(log_file);
    return detach(log_file, wait_ms,
                  [&](const Starter& starter) { return Supervisor(daemon, starter, log_file).run(pid_file); });
}

Result<nlohmann::json> answer_of(const Detached& started, const std::string& log_file) {
    nlohmann::json answer = parse_json(started.handed_over);
    if (answer.is_object()) return answer;
    return Error{ErrorCode::internal, "the daemon answered \"" + started.handed_over + "\", which is no JSON object",
                 "read its log, " + log_file};
}

std::optional<Running> read_daemon(const std::string& pid_file) {
    auto running = read_pid_file(pid_file);
    return running ? running : read_pid_file(supervisor_file(pid_file));
}

// Ends the supervisor first, because it would start the daemon again.
std::optional<Result<EndedDaemon>> end_daemon(const std::string& pid_file, std::int64_t wait_ms) {
    const auto running = read_daemon(pid_file);
    if (!running) return std::nullopt;
    EndedDaemon done{.pid = running->pid};
    const std::string over = supervisor_file(pid_file);
    if (const auto supervisor = read_pid_file(over)) {
        const Result<bool> ended = end_process(*supervisor, over, wait_ms);
        if (!ended) return ended.error();
        done.killed = !*ended;
    }
    const auto left = read_pid_file(pid_file);
    if (!left) return done;
    const Result<bool> ended = end_process(*left, pid_file, done.killed ? 0 : wait_ms);
    if (!ended) return ended.error();
    done.killed = !*ended;
    return done;
}

}  // namespace rtrain::cmd
