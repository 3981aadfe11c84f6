// Log files that workers wrote under names of their own choice, for whoever cannot write into the run's directory.
#pragma once

#include <string>

#include "daemon/agent/preparation/preparation.hpp"

namespace rtrain::agent {

inline constexpr const char* named_logs_folder = ".rtrain-logs";  // below the attempt's scratch directory

// Puts `rank-*` files of <scratch>/.rtrain-logs into `to`, the attempt's log directory below the storage. What lies
// there was made by the run's user: links, devices and files of others are left alone, and so is what has the name of a
// rank's own stream.
Status copy_named_logs(const AttemptContext& context, const std::string& scratch, const std::string& to);

}  // namespace rtrain::agent
