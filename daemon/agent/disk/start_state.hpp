// What the workers of an attempt begin with. It is kept beside the saved attempt: a worker that says hello to the
// next agent must begin as the others did.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace rtrain::agent {

struct StartState {
    std::string checkpoint_path{}, checkpoint_metrics = "{}";  // path empty: from nothing
    std::uint64_t reports_before = 0;  // of this attempt, on the live branch; known to the agent that claimed it
    bool operator==(const StartState&) const = default;
};

Status keep(const StartState& state, const std::string& attempt_directory);
Result<StartState> read_start_state(const std::string& attempt_directory);  // not_found: none was kept

}  // namespace rtrain::agent
