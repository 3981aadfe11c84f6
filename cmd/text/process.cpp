// Starts and ends daemons with fork, setsid, pid files and pidfds.
#include "cmd/text/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "base/descriptor.hpp"
#include "base/write_all.hpp"
#include "cmd/text/output.hpp"

namespace rtrain::cmd {
namespace {

Error failed(const std::string& doing) {
    const bool full = errno == ENOSPC || errno == EDQUOT;
    return {.code = full ? ErrorCode::full : ErrorCode::io,
            .message = doing + ": " + std::strerror(errno),
            .next = full ? "make room there" : ""};
}

std::string last_lines(const std::string& path, std::size_t from) {
    std::ifstream file(path);
    file.seekg(static_cast<std::streamoff>(from));
    std::string text((std::istreambuf_iterator<char>(file)), {});
    while (text.ends_with("\n")) text.pop_back();
    return text.size() > 2000 ? "..." + text.substr(text.size() - 2000) : text;
}

[[noreturn]] void become_daemon(int log, int answer, const Background& daemon) {
    setsid();
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    // Closes all other descriptors that the starter had open, such as connections and locks.
    constexpr int kept = STDERR_FILENO + 1;
    dup2(answer, kept);
    answer = kept;
    fcntl(kept, F_SETFD, FD_CLOEXEC);
    close_range(kept + 1, ~0u, 0);
    const auto send_answer = [&answer](const std::string& text) {
        if (answer < 0) return;
        if (write(answer, text.data(), text.size()) < 0) std::perror("rtrain: telling the starter");
        close(std::exchange(answer, -1));
    };
    const auto let_go = [&answer] {
        if (answer >= 0) close(std::exchange(answer, -1));
    };
    const Result<int> ended =
        daemon({.hand_over = [&](const std::string& text) { send_answer("+" + text); }, .let_go = let_go});
    if (ended) _exit(*ended);
    const Error& error = ended.error();
    std::fprintf(stderr, "error: %s\n", error.message.c_str());
    if (!error.next.empty()) std::fprintf(stderr, "  next: %s\n", error.next.c_str());
    send_answer("-" + std::string(code_text(error.code)) + '\n' + error.next + '\n' +
                error.message);  // the message is sent as well as logged, since the log may be lost
    _exit(exit_code(error.code));
}

// Parses "<code>\n<next>\n<message>", the error that ended a daemon before it was ready.
Error error_from_daemon(const std::string& text, const std::string& log_file) {
    const auto code = text.find('\n'), next = text.find('\n', code + 1);
    Error error{.code = code_from(text.substr(0, code), 500),
                .message = "it ended at once: " + text.substr(next + 1),
                .next = text.substr(code + 1, next - code - 1)};
    if (error.next.empty()) error.next = "the whole log is " + log_file;
    return error;
}

// Returns the text that the daemon sent. Returns an empty text if the daemon ended before it sent one, or at the
// deadline. At the deadline, sets `late`.
std::string read_answer(int descriptor, std::int64_t wait_ms, bool& late) {
    std::string text;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
    for (;;) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
        pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
        const int ready = poll(&waiting, 1, static_cast<int>(left > 0 ? left : 0));
        if (ready < 0 && errno == EINTR) continue;
        late = ready == 0;
        if (ready <= 0) return text;
        char piece[4096];
        const ssize_t got = read(descriptor, piece, sizeof piece);
        if (got <= 0) return text;
        text.append(piece, static_cast<std::size_t>(got));
    }
}

}  // namespace

// Reads field 22 of /proc/<pid>/stat. Returns an empty text for a zombie, because such a process has ended.
std::string start_time(int pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto end = text.rfind(')');
    if (end == text.npos) return "";
    std::istringstream fields(text.substr(end + 1));
    std::string field, state;
    fields >> state;
    if (state == "Z") return "";
    for (int i = 4; i <= 22 && fields >> field; ++i) continue;
    return field;
}

Status write_pid_file(const std::string& path, const std::string& facts) {
    // `head stop` and `node leave` send a signal to the process that this file names. So only its owner may write it,
    // under any umask.
    constexpr mode_t readable_by_all = 0644;
    const storage::Descriptor file(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, readable_by_all));
    const std::string text = std::to_string(getpid()) + "\n" + start_time(getpid()) + "\n" + facts + "\n";
    if (file.open() && ::fchmod(file.number(), readable_by_all) == 0) {
        errno = storage::write_all(file.number(), text);
        if (errno == 0) return Done{};
    }
    Error why = failed("writing " + path);
    if (why.code == ErrorCode::full) why.next = "make room on the disk of " + path;
    unlink(path.c_str());
    return why;
}

void remove_pid_file(const std::string& path) {
    std::ifstream file(path);
    int pid = 0;
    if (file >> pid && pid == getpid()) unlink(path.c_str());
}

std::optional<Running> read_pid_file(const std::string& path) {
    std::ifstream file(path);
    Running running;
    std::string started;
    if (!(file >> running.pid >> started) || running.pid <= 0) return std::nullopt;
    file >> std::ws;
    std::getline(file, running.facts);
    if (start_time(running.pid) != started) return std::nullopt;
    return running;
}

Result<bool> end_process(const Running& running, const std::string& pid_file, std::int64_t wait_ms) {
    const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, running.pid, 0));
    if (descriptor < 0 && errno == ESRCH) return true;
    if (descriptor < 0) return failed("opening process " + std::to_string(running.pid));
    // the file is read again, since the pid may have been reused between the first read and pidfd_open
    const auto still_it = read_pid_file(pid_file);
    bool ended = !still_it || still_it->pid != running.pid;
    if (!ended && syscall(SYS_pidfd_send_signal, descriptor, SIGTERM, nullptr, 0) != 0 && errno != ESRCH) {
        Error error = failed("ending process " + std::to_string(running.pid));
        close(descriptor);
        return error;
    }
    const auto wait = [&](std::int64_t ms) {
        pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
        return poll(&waiting, 1, static_cast<int>(ms)) > 0;
    };
    const bool in_time = ended || wait(wait_ms);
    if (!in_time) {
        syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, nullptr, 0);
        wait(5'000);
    }
    close(descriptor);
    if (!read_pid_file(pid_file)) unlink(pid_file.c_str());
    return in_time;
}

Result<Detached> detach(const std::string& log_file, std::int64_t wait_ms, const Background& daemon) {
    const int log = open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0) return failed("opening the log " + log_file);
    struct stat before{};
    fstat(log, &before);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return failed("making a pipe");
    const pid_t pid = fork();
    if (pid < 0) return failed("starting a process");
    if (pid == 0) {
        close(ends[0]);
        become_daemon(log, ends[1], daemon);
    }
    close(ends[1]);
    close(log);
    bool late = false;
    const std::string answer = read_answer(ends[0], wait_ms, late);
    close(ends[0]);
    if (answer.starts_with("+")) return Detached{.pid = pid, .handed_over = answer.substr(1)};
    if (late)
        return Error{.code = ErrorCode::timed_out,
                     .message = "process " + std::to_string(pid) + " runs, but is not ready after " +
                                std::to_string(wait_ms / 1000) + " s",
                     .next = "look into " + log_file};
    int status = 0;
    waitpid(pid, &status, 0);
    if (answer.starts_with("-")) return error_from_daemon(answer.substr(1), log_file);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 10;
    const ErrorCode known = code == 5   ? ErrorCode::unreachable
                            : code == 6 ? ErrorCode::unauthorised
                            : code == 7 ? ErrorCode::conflict
                            : code == 2 ? ErrorCode::usage
                            : code == 4 ? ErrorCode::invalid
                                        : ErrorCode::io;
    const std::string lines = last_lines(log_file, static_cast<std::size_t>(before.st_size));
    return Error{.code = known,
                 .message = "it ended at once: " + (lines.empty() ? "it said nothing" : lines),
                 .next = "the whole log is " + log_file};
}

void end_with(int pid) {
    if (pid <= 0) return;
    const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    std::thread([descriptor] {
        pollfd waiting{.fd = descriptor, .events = POLLIN, .revents = 0};
        while (descriptor >= 0 && poll(&waiting, 1, -1) < 0 && errno == EINTR) continue;
        kill(getpid(), SIGTERM);  // sends the signal at once if the watched process has ended already
    }).detach();
}

Status make_directory(const std::string& path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) return Done{};
    // Other users may enter the directory but not list it, since workers of a root agent must reach their files.
    const mode_t before = umask(0066);
    std::filesystem::create_directories(path, error);
    umask(before);
    if (!error) return Done{};
    const bool full = error == std::errc::no_space_on_device;
    return Error{.code = full ? ErrorCode::full : ErrorCode::io,
                 .message = "cannot make the directory " + path + ": " + error.message(),
                 .next = full ? "make room there, or name another with --data" : "name another with --data"};
}

std::string absolute(const std::string& path) { return std::filesystem::absolute(path).lexically_normal().string(); }

}  // namespace rtrain::cmd
