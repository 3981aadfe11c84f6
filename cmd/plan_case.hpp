// One question to placement, as JSON, and its answer: `rtrain plan --cases` and `--cluster`. No daemon, no network.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "scheduler/placement.hpp"
#include "scheduler/result.hpp"

namespace rtrain::cmd {

// JSON whose fractions keep their digits (as strings): amounts are exact decimals, a double is not. NaN and Infinity,
// which are no JSON but which some writers emit, become strings as well, and so are refused as amounts with their name.
Result<nlohmann::json> parse_exact(const std::string& text);

Result<std::vector<NodeView>> nodes_from(const nlohmann::json& question);  // "nodes" and "allocations"
Result<GangRequest> request_from(const nlohmann::json& request);
PlacementAnswer answer_case(const std::vector<NodeView>& nodes, const GangRequest& request,
                            const std::string& soft_target);
nlohmann::json answer_json(const PlacementAnswer& answer);
std::string answer_line(const std::string& line);  // a line in, a line out; what is wrong with it is its answer

}  // namespace rtrain::cmd
