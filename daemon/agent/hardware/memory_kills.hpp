// Finds out whether the kernel killed a worker because memory ran out. The kernel's log names each killed process, if
// the log is readable (as root, in the machine's pid namespace). Otherwise a counter is used: that of the attempt's
// cgroup, or the machine's. The machine's counter is used for the last seconds only, and each count explains one end.
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
    std::int64_t used_kib = 0, limit_kib = 0;  // limit 0: the machine's whole memory
    bool operator==(const MemoryKill&) const = default;
};
std::vector<MemoryKill> memory_kills_in(const std::string& log);     // in the order of the log
std::string amounts(std::int64_t used_kib, std::int64_t total_kib);  // a text such as "61.8 of 62 GiB"

struct MemorySources {
    // Nullopt: the log is not readable, or has pids of another namespace.
    std::function<std::optional<std::string>()> log;
    std::function<std::uint64_t()> kills;  // kills on this machine since boot
    std::function<std::int64_t()> total_kib;
};
MemorySources memory_of_this_machine();

struct MemoryDeath {
    AttemptKey attempt;
    std::int64_t pid = 0;
    bool killed = false, directly = false;          // by signal 9; directly: the worker itself, not only a child
    std::int64_t peak_kib = 0;                      // the process's own peak, from the kernel
    std::optional<std::uint64_t> kills_in_group{};  // number of kills in the attempt's cgroup, if it is counted
};

class MemoryKills {
  public:
    explicit MemoryKills(MemorySources sources);
    void look(std::int64_t now_ms);  // called at intervals, so that old kills explain nothing
    // Returns a text about the memory if that explains this death; nullopt otherwise.
    std::optional<std::string> explain(const MemoryDeath& death);
    // Returns a text about another process on the node that the kernel killed, for a worker that failed by itself;
    // empty if there was none. The kill can still explain another end.
    std::string meanwhile(const MemoryDeath& death) const;

  private:
    bool counted(const MemoryDeath& death) const;
    MemorySources sources_;
    std::uint64_t explained_ = 0, next_explained_ = 0;  // kills up to this count are already explained
    std::int64_t looked_at_ms_ = 0;
    std::map<AttemptKey, std::uint64_t> explained_of_;
};

}  // namespace rtrain::agent
