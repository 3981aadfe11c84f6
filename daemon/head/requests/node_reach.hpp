// Which files of cluster:// a node may ask for (events/node_rights.hpp), as an answer.
#pragma once

#include <optional>
#include <string>

#include "daemon/head/access/tokens.hpp"
#include "daemon/head/events/node_rights.hpp"
#include "daemon/head/view/view.hpp"

namespace rtrain::head {

// Returns the answer to a node that does not reach `path` of cluster://; none: it does, or it is no node. On the loop.
std::optional<net::Response> refuse_unreached(const View& view, const Caller& caller, const std::string& path,
                                              Touch touch);

}  // namespace rtrain::head
