// One cgroup (version 2) per attempt, if this process may make groups. `cgroup.kill` then ends all processes of a
// worker, and the kernel counts kills for lack of memory per attempt. Otherwise (no cgroup2 mount, not writable, no
// memory controller) the agent uses process groups, the shims as subreapers, and /proc/vmstat.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "daemon/agent/machine/messages.hpp"

namespace rtrain::agent {

// The limits of all ranks of an attempt on this node together. 0: no limit.
struct GroupLimits {
    std::int64_t memory_bytes = 0, cpu_ticks = 0;
};

class Cgroups {
  public:
    // `base` is the directory of this process's group. `owner` distinguishes agents on one machine. Returns nullopt if
    // groups cannot be made.
    static std::optional<Cgroups> open(const std::string& base, const std::string& owner);
    // Returns the group of this process, from /proc; empty if version 2 is not mounted.
    static std::string own_group(const std::string& mounts_file = "/proc/self/mounts",
                                 const std::string& groups_file = "/proc/self/cgroup");

    Result<std::string> make(AttemptKey attempt) const;  // returns its directory, new or existing
    std::string directory(AttemptKey attempt) const;
    bool counts_memory() const { return counts_memory_; }  // the groups of attempts have a memory controller
    // Makes the group and writes memory.max, memory.high and cpu.weight. After an error memory is not limited.
    Status limit(AttemptKey attempt, const GroupLimits& limits) const;
    bool limits_memory(AttemptKey attempt) const;  // true if its memory.max is a number
    // Kills all processes in it; false if there is no such group, or no process in it.
    bool kill(AttemptKey attempt) const;
    // Returns the number of its processes that the kernel killed for lack of memory; nullopt if it does not count them.
    std::optional<std::uint64_t> oom_kills(AttemptKey attempt) const;
    void remove(AttemptKey attempt) const;  // once the group is empty

  private:
    Cgroups(std::string base, std::string owner) : base_(std::move(base)), owner_(std::move(owner)) {}
    std::string base_, owner_;
    bool counts_memory_ = false;
};

}  // namespace rtrain::agent
