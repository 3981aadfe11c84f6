// The head daemon: owns the cluster's state, decides, orders agents about, answers people. See README.md for the flow.
#pragma once

#include <functional>

#include "base/result.hpp"
#include "daemon/head/base/options.hpp"
#include "daemon/head/listening.hpp"

namespace rtrain {

// Serves until SIGTERM, SIGINT or `head stop`. An Error: could not start (conflict: port or data directory taken), or a
// commit failed: then nothing of it was performed and the process must end.
Status serve_head(const HeadOptions& options, const std::function<void(const HeadListening&)>& ready);

}  // namespace rtrain
