// Delivers log files that workers wrote under their own names, for workers that cannot write to the run's directory.
#pragma once

#include <string>

#include "daemon/agent/preparation/preparation.hpp"

namespace rtrain::agent {

inline constexpr const char* named_logs_folder = ".rtrain-logs";  // a folder below the attempt's scratch directory

// Copies `rank-*` files of <scratch>/.rtrain-logs to `to`, the attempt's log directory on the storage. The run's user
// made them. So links, devices, files of other users, and names of a rank's own streams are skipped.
Status copy_named_logs(const AttemptContext& context, const std::string& scratch, const std::string& to);

}  // namespace rtrain::agent
