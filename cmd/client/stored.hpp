// Checks whether the directory of an ended run holds all of its results. If it does, the machines that trained the run
// may be released.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cmd/client/api.hpp"
#include "cmd/client/run_store.hpp"

namespace rtrain::cmd {

// Returns the files that are missing in the directory of an ended run; empty: none. It looks for the run's result, the
// end of its last attempt, and the logs of each rank with output. Checkpoints are not checked, since they are committed
// before the run ends.
Result<std::vector<std::string>> files_missing(Api& api, const nlohmann::json& run, const RunStore& place);

}  // namespace rtrain::cmd
