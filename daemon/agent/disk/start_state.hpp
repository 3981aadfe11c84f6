// The state with which the workers of an attempt start. It is stored beside the saved attempt, so that a worker that
// connects to the next agent starts in the same state.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace rtrain::agent {

struct StartState {
    std::string checkpoint_path{}, checkpoint_metrics = "{}";  // empty path: the attempt starts without a checkpoint
    // Reports on the live branch before this attempt; known to the agent that made the claim.
    std::uint64_t reports_before = 0;
    bool operator==(const StartState&) const = default;
};

Status keep(const StartState& state, const std::string& attempt_directory);
Result<StartState> read_start_state(const std::string& attempt_directory);  // not_found: none was stored

}  // namespace rtrain::agent
