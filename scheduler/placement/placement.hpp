// Where a gang goes: all its bundles or none. Pure; decides on the candidates' free amounts and takes nothing.
#pragma once

#include <vector>

#include "scheduler/model/gang.hpp"

namespace rtrain {

PlacementAnswer place(const std::vector<NodeView>& nodes, const GangRequest& request);              // hot: no reasons
PlacementAnswer explain_placement(const std::vector<NodeView>& nodes, const GangRequest& request);  // with reasons
// Returns what each node, in their order, says of the gang, up to `at_most`; why the request is invalid, if it is.
std::vector<NodeReason> placement_reasons(const std::vector<NodeView>& nodes, const GangRequest& request,
                                          std::size_t at_most);

}  // namespace rtrain
