// Who speaks for a rank: its place belongs to the first process that wants it, and passes on when that process has
// ended or gives it up. A connection that breaks changes nothing. The class is pure: whether a process runs is asked of
// the caller.
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

    // Returns the process that has the place now: `asks` where it is free, or its holder does not run any more.
    ProcessId claim(AttemptKey attempt, std::uint32_t rank, ProcessId claimant, const Runs& runs);
    // The process that has the place and runs; nullopt: it is free.
    std::optional<ProcessId> holder(AttemptKey attempt, std::uint32_t rank, const Runs& runs) const;
    void restore(AttemptKey attempt, std::uint32_t rank, ProcessId holder);  // after this agent's restart
    void release(AttemptKey attempt, std::uint32_t rank, ProcessId by);      // nothing where `by` does not hold it
    void forget(AttemptKey attempt);

  private:
    std::map<std::pair<AttemptKey, std::uint32_t>, ProcessId> holders_;
};

// A file with the holder's two numbers, for the next agent.
void keep_holder(const std::string& path, ProcessId holder);
std::optional<ProcessId> kept_holder(const std::string& path);

}  // namespace rtrain::agent
