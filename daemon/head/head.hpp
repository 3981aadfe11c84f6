// The head daemon. It owns the cluster's state, decides, sends orders to agents, and answers requests. README.md has
// the flow.
#pragma once

#include <functional>

#include "base/result.hpp"
#include "daemon/head/base/options.hpp"
#include "daemon/head/listening.hpp"

namespace rtrain {

// Serves until SIGTERM, SIGINT or `head stop`. Returns an Error if the head could not start (conflict: port or data
// directory taken), or if a commit failed. Then none of its effects were performed, and the process must end.
Status serve_head(const HeadOptions& options, const std::function<void(const HeadListening&)>& ready);

}  // namespace rtrain
