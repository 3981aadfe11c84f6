// Requests stacks of a rank. A worker may be a shell around its program, so the rank's processes are found by their
// environment. The uppermost process that catches the signal gets it. Its forks share the handler, and would overwrite
// each other's output.
#include "daemon/agent/workers/stacks.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>

#include "daemon/agent/base/log.hpp"
#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/workers/launcher.hpp"

namespace rtrain::agent {
namespace {

bool is_of(const StackTarget& target, const std::string& pid) {
    const auto environment = read_whole("/proc/" + pid + "/environ");
    return environment && has_entry(*environment, "RTRAIN_ATTEMPT=" + target.attempt) &&
           has_entry(*environment, "RTRAIN_NODE=" + target.node) &&
           has_entry(*environment, "RANK=" + std::to_string(target.rank));
}

// Returns a number of /proc/PID/status; 0 if it is missing.
std::uint64_t number_of(const std::string& status, const std::string& name, int base) {
    const auto at = status.find("\n" + name + ":");
    return at == std::string::npos ? 0 : std::strtoull(status.c_str() + at + name.size() + 2, nullptr, base);
}

bool catches_it(const std::string& status) { return (number_of(status, "SigCgt", 16) >> (stack_signal - 1) & 1) != 0; }

// Sends the signal. Holds the process by a pidfd while it is checked again, so that no process with a reused pid gets
// the signal.
bool signalled(const StackTarget& target, pid_t pid) {
    const int process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (process < 0) return false;
    const auto status = read_whole("/proc/" + std::to_string(pid) + "/status");
    const bool still = status && catches_it(*status) && is_of(target, std::to_string(pid));
    const bool sent = still && ::syscall(SYS_pidfd_send_signal, process, stack_signal, nullptr, 0) == 0;
    ::close(process);
    return sent;
}

// Returns the processes that catch the signal, with their parents.
std::map<pid_t, pid_t> answering(const StackTarget& target) {
    std::map<pid_t, pid_t> pids;
    DIR* processes = ::opendir("/proc");
    if (!processes) return pids;
    while (const dirent* entry = ::readdir(processes)) {
        const auto pid = static_cast<pid_t>(std::strtol(entry->d_name, nullptr, 10));
        if (pid <= 1 || pid == ::getpid()) continue;
        const auto status = read_whole(std::string("/proc/") + entry->d_name + "/status");
        if (!status || !catches_it(*status) || !is_of(target, entry->d_name)) continue;
        pids[pid] = static_cast<pid_t>(number_of(*status, "PPid", 10));
    }
    ::closedir(processes);
    return pids;
}

void append(const std::string& file, const std::string& line) {
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (descriptor < 0) return;
    const ssize_t written = ::write(descriptor, line.data(), line.size());
    ::close(descriptor);
    if (written < 0) warn("where a rank is could not be written to " + file + ": " + std::strerror(errno));
}

}  // namespace

std::size_t request_stacks(const StackTarget& target) {
    const std::map<pid_t, pid_t> processes = answering(target);
    const std::string rank = "rtrain: rank " + std::to_string(target.rank) + ": " + target.why;
    if (processes.empty())
        append(target.log,
               rank + "; where it is cannot be told: no process of it is Python that imported rtrain.train\n");
    else
        append(target.log, rank + "; where it is:\n");
    std::size_t asked = 0;
    for (const auto& [pid, parent] : processes)
        if (!processes.contains(parent) && signalled(target, pid)) ++asked;
    return asked;
}

}  // namespace rtrain::agent
