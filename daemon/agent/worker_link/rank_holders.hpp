// The process that represents a rank. The rank's place belongs to the first process that claims it. It becomes free
// when that process has ended or released it. A broken connection does not change it. Pure: the caller passes a
// function that tells whether a process runs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "daemon/agent/machine/messages.hpp"
#include "daemon/agent/machine/stop_targets.hpp"

namespace rtrain::agent {

class RankHolders {
  public:
    using Runs = std::function<bool(const ProcessId&)>;

    // Returns the process that has the place now: `claimant` if the place is free, or if its holder has ended.
    ProcessId claim(AttemptKey attempt, std::uint32_t rank, ProcessId claimant, const Runs& runs);
    // Returns the running process that has the place; nullopt if it is free.
    std::optional<ProcessId> holder(AttemptKey attempt, std::uint32_t rank, const Runs& runs) const;
    void restore(AttemptKey attempt, std::uint32_t rank, ProcessId holder);  // after this agent's restart
    void release(AttemptKey attempt, std::uint32_t rank, ProcessId by);      // does nothing if `by` does not hold it
    void forget(AttemptKey attempt);

  private:
    std::map<std::pair<AttemptKey, std::uint32_t>, ProcessId> holders_;
};

// Writes the holder's pid and start time to a file, for the next agent.
void keep_holder(const std::string& path, ProcessId holder);
std::optional<ProcessId> kept_holder(const std::string& path);

}  // namespace rtrain::agent
