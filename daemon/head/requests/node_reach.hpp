// Checks a node's access to files of cluster:// (events/node_rights.hpp), and makes the answer.
#pragma once

#include <optional>
#include <string>

#include "daemon/head/access/tokens.hpp"
#include "daemon/head/events/node_rights.hpp"
#include "daemon/head/view/view.hpp"

namespace rtrain::head {

// Returns the refusal for a node without access to `path` of cluster://; nullopt if it has access, or if the caller is
// no node. Call it on the loop.
std::optional<net::Response> refuse_unreached(const View& view, const Caller& caller, const std::string& path,
                                              Touch touch);

}  // namespace rtrain::head
