// Checks whether all results of an ended run are in its directory. Then the machines that trained it may be released.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cmd/client/api.hpp"
#include "cmd/client/run_store.hpp"

namespace rtrain::cmd {

// Returns the files that are missing in the directory of the ended run: its result, the end of its last attempt, and
// the logs of each rank with output. (Its checkpoints were committed before it ended.) Empty: none is missing.
Result<std::vector<std::string>> files_missing(Api& api, const nlohmann::json& run, const RunStore& place);

}  // namespace rtrain::cmd
