// Whether all that an ended run leaves is in its directory: then the machines that trained it may go.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cmd/client/api.hpp"
#include "cmd/client/run_store.hpp"

namespace rtrain::cmd {

// Files that are missing in the directory of the run, which has ended: its result, the end of its last attempt, the
// logs of each rank that wrote some. (Its checkpoints were committed before it ended.) Empty: all are there.
Result<std::vector<std::string>> files_missing(Api& api, const nlohmann::json& run, const RunStore& place);

}  // namespace rtrain::cmd
