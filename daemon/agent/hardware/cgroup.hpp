// One cgroup (version 2) per attempt, where this process may make some: nothing that a worker leaves behind escapes
// `cgroup.kill`, and the kernel says whether memory ran out in this attempt rather than somewhere on the machine.
// Elsewhere (no cgroup2 mount, not writable, no memory controller) the agent does without: process groups, the shims'
// subreaping, and /proc/vmstat.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.hpp"
#include "daemon/agent/machine/messages.hpp"

namespace rtrain::agent {

// The limits of all ranks of an attempt on this node, together. 0: no limit.
struct GroupLimits {
    std::int64_t memory_bytes = 0, cpu_ticks = 0;
};

class Cgroups {
  public:
    // `base`: the directory of the group this process is in; `owner` tells agents on one machine apart.
    // nullopt: groups cannot be made there.
    static std::optional<Cgroups> open(const std::string& base, const std::string& owner);
    // Returns the group that this process is in, as the kernel says; empty: version 2 is not mounted.
    static std::string own_group(const std::string& mounts_file = "/proc/self/mounts",
                                 const std::string& groups_file = "/proc/self/cgroup");

    Result<std::string> make(AttemptKey attempt) const;  // its directory; what is there already is taken
    std::string directory(AttemptKey attempt) const;
    bool counts_memory() const { return counts_memory_; }  // groups of attempts have a memory controller
    // Makes the group and writes memory.max, memory.high and cpu.weight. An Error: memory is not limited.
    Status limit(AttemptKey attempt, const GroupLimits& limits) const;
    bool limits_memory(AttemptKey attempt) const;  // its memory.max is a number
    bool kill(AttemptKey attempt) const;           // everything in it; false: there is no such group, or nobody in it
    // Processes of it that the kernel killed since memory ran out; nullopt: it does not count them.
    std::optional<std::uint64_t> oom_kills(AttemptKey attempt) const;
    void remove(AttemptKey attempt) const;  // once it is empty

  private:
    Cgroups(std::string base, std::string owner) : base_(std::move(base)), owner_(std::move(owner)) {}
    std::string base_, owner_;
    bool counts_memory_ = false;
};

}  // namespace rtrain::agent
