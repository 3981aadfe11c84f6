// See command.hpp.
#include "daemon/head/autoscale/command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>

#include "base/descriptor.hpp"
#include "base/write_all.hpp"
#include "daemon/head/base/clock.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t output_most = 256 << 10;  // bytes; enough for the names of thousands of machines
constexpr std::size_t read_most = 16 << 10;     // bytes read at a time
constexpr int links_most = 40;                  // the most links on one path, as in Linux
constexpr std::size_t last_reads = 5;           // reads after the command's end; a pipe holds 64 KiB
constexpr std::int64_t look_ms = 100, grace_ms = 5'000;
constexpr const char* path_of_system = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

using storage::Descriptor;

Error system_error(const std::string& doing, int code) {
    return {ErrorCode::io, doing + ": " + std::strerror(code), "see the commands of the autoscale file"};
}

// Returns a descriptor with the command's standard input in memory, so that the head does not wait for the command to
// read.
Result<Descriptor> input_of(const std::string& text) {
    Descriptor file(::memfd_create("input", MFD_CLOEXEC));
    if (!file.open()) return system_error("the command's input", errno);
    if (const int failed = storage::write_all(file.number(), text)) return system_error("the command's input", failed);
    if (::lseek(file.number(), 0, SEEK_SET) != 0) return system_error("the command's input", errno);
    return file;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> out;
    for (std::string& word : words) out.push_back(word.data());
    out.push_back(nullptr);
    return out;
}

// The attributes and descriptors of the new process.
struct Setup {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t files;
    Setup(int input, int output) {
        posix_spawnattr_init(&attributes);
        posix_spawn_file_actions_init(&files);
        sigset_t none, all;
        sigemptyset(&none);
        sigfillset(&all);
        // the child process blocks no signals, while this thread blocks all
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
        posix_spawn_file_actions_adddup2(&files, input, 0);
        posix_spawn_file_actions_adddup2(&files, output, 1);
        posix_spawn_file_actions_adddup2(&files, output, 2);
        posix_spawn_file_actions_addclosefrom_np(&files, 3);
        posix_spawn_file_actions_addchdir_np(&files, "/");
    }
    ~Setup() {
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&files);
    }
    Setup(const Setup&) = delete;
    Setup& operator=(const Setup&) = delete;
};

Result<pid_t> spawn(const CommandWish& wish, int input, int output) {
    std::vector<std::string> words = wish.words, environment = wish.environment;
    environment.emplace_back(path_of_system);
    environment.emplace_back("LANG=C.UTF-8");
    if (const char* home = std::getenv("HOME"); home != nullptr) environment.push_back(std::string("HOME=") + home);
    std::vector<char*> arguments = pointers(words), variables = pointers(environment);
    const Setup setup(input, output);
    pid_t pid = 0;
    const int failed =
        ::posix_spawn(&pid, words[0].c_str(), &setup.files, &setup.attributes, arguments.data(), variables.data());
    if (failed != 0) return system_error("starting " + words[0], failed);
    return pid;
}

// Reads a part of the output, so that a command that writes for ever does not delay the timeout.
void read_some(int pipe, std::string& output) {
    char bytes[4096];
    ssize_t got = 0;
    for (std::size_t all = 0; all < read_most && (got = ::read(pipe, bytes, sizeof bytes)) > 0;
         all += static_cast<std::size_t>(got))
        output.append(bytes, static_cast<std::size_t>(got));
    if (output.size() > output_most) output.erase(0, output.size() - output_most);
}

// Returns true if the process has ended. It stays a zombie, so that its pid and group cannot be reused yet.
bool has_ended(pid_t pid) {
    siginfo_t facts{};
    return ::waitid(P_PID, static_cast<id_t>(pid), &facts, WEXITED | WNOHANG | WNOWAIT) != 0 || facts.si_pid == pid;
}

// Waits until the process has ended, but not for processes that it has started and left running. After a signal the
// whole group is killed.
CommandEnd wait_for_end(pid_t pid, int pipe, std::int64_t timeout_ms, const std::atomic<bool>& give_up) {
    CommandEnd end;
    std::int64_t until_ms = monotonic_ms() + timeout_ms;
    int signal = 0, status = 0;
    while (!has_ended(pid)) {
        pollfd readable{.fd = pipe, .events = POLLIN, .revents = 0};
        const bool some = ::poll(&readable, 1, static_cast<int>(look_ms)) > 0;
        // Waits between two reads, so that a closed or busy output does not use a whole CPU.
        if (some) ::usleep(static_cast<useconds_t>(look_ms * 100));
        read_some(pipe, end.output);
        const bool over = monotonic_ms() >= until_ms;
        if (!over && (signal != 0 || !give_up)) continue;
        end.timed_out = end.timed_out || (over && signal == 0);
        if (signal == SIGKILL) continue;
        signal = signal == 0 ? SIGTERM : SIGKILL;
        ::kill(-pid, signal);
        until_ms = monotonic_ms() + grace_ms;
    }
    if (signal != 0) ::kill(-pid, SIGKILL);
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    for (std::size_t i = 0; i < last_reads; ++i) read_some(pipe, end.output);
    end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return end;
}

// Returns true if the component of the path is a link. Fails unless it belongs to root or to this process's user, and
// others cannot write to it. On a read-only mount (such as a ConfigMap's) modes are not checked.
Result<bool> is_link_of_ours(const std::string& path, const std::filesystem::path& component) {
    struct stat facts{};
    if (::lstat(component.c_str(), &facts) != 0) return system_error(component.string(), errno);
    const bool ours = facts.st_uid == 0 || facts.st_uid == ::geteuid();
    if (ours && S_ISLNK(facts.st_mode)) return true;  // a link has no mode of its own
    // in a sticky directory, other users cannot rename entries
    const bool sticky = S_ISDIR(facts.st_mode) && (facts.st_mode & S_ISVTX) != 0;
    struct statvfs mount{};
    const bool read_only = ::statvfs(component.c_str(), &mount) == 0 && (mount.f_flag & ST_RDONLY) != 0;
    if (ours && (sticky || read_only || (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0)) return false;
    return Error{ErrorCode::invalid,
                 path + ": " + component.string() + (ours ? " may be written by others" : " belongs to another user") +
                     ", who could have the head run what they like",
                 "chown root " + component.string() + " and chmod go-w " + component.string()};
}

}  // namespace

Result<CommandEnd> run_command(const CommandWish& wish, const std::atomic<bool>& give_up) {
    const Result<Descriptor> input = input_of(wish.input);
    if (!input) return input.error();
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return system_error("the command's output", errno);
    const Descriptor from(ends[0]);
    Descriptor to(ends[1]);
    ::fcntl(from.number(), F_SETFL, O_NONBLOCK);
    const Result<pid_t> pid = spawn(wish, input->number(), to.number());
    if (!pid) return pid.error();
    to.close();
    return wait_for_end(*pid, from.number(), wish.timeout_ms, give_up);
}

// Checks the path from the root down, as the kernel resolves it, including the paths of links.
Status only_ours(const std::string& path) {
    std::error_code failed;
    const std::filesystem::path whole = std::filesystem::absolute(path, failed);
    std::deque<std::filesystem::path> rest(whole.begin(), whole.end());
    std::filesystem::path here = "/";
    for (int links = 0; !rest.empty();) {
        const std::filesystem::path name = rest.front();
        rest.pop_front();
        const std::filesystem::path next = name.is_absolute() ? name : name == ".." ? here.parent_path() : here / name;
        const Result<bool> link = is_link_of_ours(path, next);
        if (!link) return link.error();
        if (!*link) {
            here = next;
            continue;
        }
        if (++links > links_most) return system_error(path, ELOOP);
        const std::filesystem::path target = std::filesystem::read_symlink(next, failed);
        if (failed) return system_error(next.string(), failed.value());
        rest.insert(rest.begin(), target.begin(), target.end());
    }
    return Done{};
}

}  // namespace rtrain::head
