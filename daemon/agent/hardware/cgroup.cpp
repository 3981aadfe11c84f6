// Files of cgroup v2. Every call may fail at any time, for example in a container, or by another manager of the tree.
// The agent then continues without cgroups, so that such a failure never ends an attempt.
#include "daemon/agent/hardware/cgroup.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>

#include "daemon/agent/base/limits.hpp"
#include "daemon/agent/disk/node_files.hpp"

namespace rtrain::agent {
namespace {

bool write_existing(const std::string& path, const std::string& text) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0) return false;
    const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    ::close(file);
    return written;
}

// cpu.weight is 100 by default, which stands for one processor here.
constexpr std::int64_t weight_of_a_cpu = 100, weight_most = 10'000;
// memory.high is only slightly below memory.max, so that a rank within its memory is not slowed down.
constexpr std::int64_t high_below_part = 64, high_below_most = std::int64_t{64} << 20;

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// Kills the processes one by one until none is left, for kernels before 5.14, which lack cgroup.kill.
bool kill_each(const std::string& group) {
    bool any = false;
    for (int round = 0; round < 64; ++round) {
        const auto text = read_whole(group + "/cgroup.procs");
        if (!text || text->empty()) break;
        std::istringstream pids(*text);
        for (pid_t pid = 0; pids >> pid;)
            if (pid > 0 && ::kill(pid, SIGKILL) == 0) any = true;
    }
    return any;
}

}  // namespace

std::string Cgroups::own_group(const std::string& mounts_file, const std::string& groups_file) {
    const auto mounts = read_whole(mounts_file), groups = read_whole(groups_file);
    if (!mounts || !groups) return {};
    std::string mount, group, line;
    for (std::istringstream lines(*mounts); std::getline(lines, line);) {
        std::istringstream values(line);
        std::string device, place, type;
        if (values >> device >> place >> type && type == "cgroup2" && mount.empty()) mount = place;
    }
    for (std::istringstream lines(*groups); std::getline(lines, line);)
        if (line.starts_with("0::")) group = line.substr(3);
    if (mount.empty() || group.empty()) return {};
    return group == "/" ? mount : mount + group;
}

std::optional<Cgroups> Cgroups::open(const std::string& base, const std::string& owner) {
    if (base.empty() || !exists(base + "/cgroup.procs") || ::access(base.c_str(), W_OK) != 0) return std::nullopt;
    Cgroups groups(base, owner);
    const std::string probe = base + "/rtrain-" + owner + "-probe";
    if (::mkdir(probe.c_str(), 0755) != 0 && errno != EEXIST) return std::nullopt;
    if (::rmdir(probe.c_str()) != 0 && errno != ENOENT) return std::nullopt;
    // The kernel refuses this if this group itself has processes; only the root group may have both. Then memory is not
    // counted per attempt.
    const auto controllers = read_whole(base + "/cgroup.controllers");
    for (const std::string name : {"pids", "cpu", "memory"})
        if (controllers && (" " + *controllers).find(" " + name) != std::string::npos)
            write_existing(base + "/cgroup.subtree_control", "+" + name);
    const auto given_on = read_whole(base + "/cgroup.subtree_control");
    groups.counts_memory_ = given_on && given_on->find("memory") != std::string::npos;
    return groups;
}

std::string Cgroups::directory(AttemptKey attempt) const {
    return base_ + "/rtrain-" + owner_ + "-" + std::to_string(attempt.run) + "-" + std::to_string(attempt.incarnation);
}

Result<std::string> Cgroups::make(AttemptKey attempt) const {
    const std::string place = directory(attempt);
    if (::mkdir(place.c_str(), 0755) != 0 && errno != EEXIST)
        return Error{ErrorCode::io, "creating the cgroup " + place + ": " + std::strerror(errno), ""};
    write_existing(place + "/pids.max", std::to_string(limits::tasks_of_attempt));
    return place;
}

Status Cgroups::limit(AttemptKey attempt, const GroupLimits& limits) const {
    const auto group = make(attempt);
    if (!group) return group.error();
    const std::int64_t weight = limits.cpu_ticks * weight_of_a_cpu / Amount::per_unit;
    write_existing(*group + "/cpu.weight", std::to_string(std::clamp<std::int64_t>(weight, 1, weight_most)));
    if (limits.memory_bytes <= 0) return Done{};
    const std::int64_t high = limits.memory_bytes - std::min(limits.memory_bytes / high_below_part, high_below_most);
    write_existing(*group + "/memory.high", std::to_string(high));
    if (write_existing(*group + "/memory.max", std::to_string(limits.memory_bytes))) return Done{};
    return Error{ErrorCode::io, "writing " + *group + "/memory.max: " + std::strerror(errno), ""};
}

bool Cgroups::limits_memory(AttemptKey attempt) const {
    const auto most = read_whole(directory(attempt) + "/memory.max");
    return most && !most->empty() && !most->starts_with("max");
}

bool Cgroups::kill(AttemptKey attempt) const {
    const std::string group = directory(attempt);
    const auto members = read_whole(group + "/cgroup.procs");
    if (!members || members->empty()) return false;
    if (write_existing(group + "/cgroup.kill", "1")) return true;
    return kill_each(group);
}

std::optional<std::uint64_t> Cgroups::oom_kills(AttemptKey attempt) const {
    const auto values = read_values(directory(attempt) + "/memory.events");
    const auto entry = values.find("oom_kill");
    if (entry == values.end()) return std::nullopt;
    return std::strtoull(entry->second.c_str(), nullptr, 10);
}

// Removes the group. It is busy for a moment while its last process ends.
void Cgroups::remove(AttemptKey attempt) const {
    const std::string group = directory(attempt);
    for (int tries = 0; tries < 50 && ::rmdir(group.c_str()) != 0 && errno == EBUSY; ++tries) ::poll(nullptr, 0, 20);
}

}  // namespace rtrain::agent
