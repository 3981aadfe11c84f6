// See log_rotation.hpp. Only renames are used: no line is lost, and none is written twice.
#include "cmd/daemons/log_rotation.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "base/descriptor.hpp"

namespace rtrain::cmd {
namespace {

constexpr std::chrono::seconds between_looks{1};

std::string old_log(const std::string& path, int number) { return path + "." + std::to_string(number); }

}  // namespace

void rotate_full_log(const std::string& path, const LogBounds& bounds) {
    struct stat facts{};
    if (::lstat(path.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size <= bounds.bytes) return;
    for (int number = bounds.old_files - 1; number >= 1; --number)
        (void)std::rename(old_log(path, number).c_str(), old_log(path, number + 1).c_str());
    (void)std::rename(path.c_str(), old_log(path, 1).c_str());
}

void follow_log(const std::string& path) {
    struct stat named{}, written{};
    const bool is_there = ::stat(path.c_str(), &named) == 0;
    if (::fstat(STDERR_FILENO, &written) != 0) return;
    if (is_there && named.st_ino == written.st_ino && named.st_dev == written.st_dev) return;
    const storage::Descriptor log(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!log.open()) return;  // the disk is full: the old file takes further lines until the next check
    ::dup2(log.number(), STDOUT_FILENO);
    ::dup2(log.number(), STDERR_FILENO);
}

void keep_log_bounded(const std::string& path) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // signals of the daemon are blocked in the new thread
    std::thread([path] {
        for (;; std::this_thread::sleep_for(between_looks)) {
            rotate_full_log(path);
            follow_log(path);
        }
    }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace rtrain::cmd
