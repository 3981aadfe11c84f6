// Places a gang: all bundles or none. Pure: reads the candidates' free amounts and reserves nothing.
#pragma once

#include <vector>

#include "scheduler/model/gang.hpp"

namespace rtrain {

// returns the answer without reasons, for frequent use
PlacementAnswer place(const std::vector<NodeView>& nodes, const GangRequest& request);
// returns the answer with a reason for each node
PlacementAnswer explain_placement(const std::vector<NodeView>& nodes, const GangRequest& request);
// Returns a text for each node about the gang, in the nodes' order, at most `at_most`; or why the request is invalid.
std::vector<NodeReason> placement_reasons(const std::vector<NodeView>& nodes, const GangRequest& request,
                                          std::size_t at_most);

}  // namespace rtrain
