// Was it the kernel that ended a worker, since memory ran out? Its log names each process that it killed, where the log
// can be read (as root, where pids are the machine's own). Elsewhere a counter rises: the attempt's cgroup's, or the
// machine's, which is believed for the last seconds only and explains one end for each kill.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/agent/machine/messages.hpp"

namespace rtrain::agent {

struct MemoryKill {
    std::int64_t pid = 0;
    std::string name{};
    std::int64_t used_kib = 0, limit_kib = 0;  // limit 0: all that the machine has
    bool operator==(const MemoryKill&) const = default;
};
std::vector<MemoryKill> memory_kills_in(const std::string& log);     // in their order
std::string amounts(std::int64_t used_kib, std::int64_t total_kib);  // "61.8 of 62 GiB"

struct MemorySources {
    std::function<std::optional<std::string>()> log;  // nullopt: it may not be read, or its pids are not ours
    std::function<std::uint64_t()> kills;             // on this machine, ever
    std::function<std::int64_t()> total_kib;
};
MemorySources memory_of_this_machine();

struct MemoryDeath {
    AttemptKey attempt;
    std::int64_t pid = 0;
    bool killed = false, directly = false;          // by signal 9; not only a child of it
    std::int64_t peak_kib = 0;                      // its own, as the kernel counts
    std::optional<std::uint64_t> kills_in_group{};  // of the attempt's cgroup, where it counts
};

class MemoryKills {
  public:
    explicit MemoryKills(MemorySources sources);
    void look(std::int64_t now_ms);  // now and then: what was killed long ago explains nothing
    // What is known of the memory when it explains this death; nullopt: it does not.
    std::optional<std::string> explain(const MemoryDeath& death);
    // Returns the sentence about another process on the node that memory ended, for a worker that failed by itself;
    // empty: there was none. Asking uses nothing up.
    std::string meanwhile(const MemoryDeath& death) const;

  private:
    bool counted(const MemoryDeath& death) const;
    MemorySources sources_;
    std::uint64_t explained_ = 0, next_explained_ = 0;  // kills up to here explain nothing any more
    std::int64_t looked_at_ms_ = 0;
    std::map<AttemptKey, std::uint64_t> explained_of_;
};

}  // namespace rtrain::agent
