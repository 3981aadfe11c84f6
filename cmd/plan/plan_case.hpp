// One question to placement, as JSON, and its answer: `rtrain plan --cases` and `--cluster`. No daemon, no network.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "scheduler/model/result.hpp"
#include "scheduler/placement/placement.hpp"

namespace rtrain::cmd {

Error invalid(std::string message);                // of a question that cannot be answered
std::string text_of(const nlohmann::json& value);  // a string as it is, anything else as its JSON

// JSON whose fractions keep their digits (as strings): amounts are exact decimals, a double is not. NaN and Infinity,
// which are no JSON but which some writers emit, become strings as well, and so are refused as amounts with their name.
Result<nlohmann::json> parse_exact(const std::string& text);

struct DescribedCluster {
    std::vector<NodeView> now;
    std::vector<NodeView> later;                                    // once all other jobs have ended
    std::map<NodeId, std::vector<std::vector<GpuShare>>> own_gpus;  // of the asking gang, allocation by allocation
};
// "nodes" and "allocations". All that is wrong with them is told at once, each with its path (nodes[2].state); the
// cluster is then not to be used.
DescribedCluster cluster_from(const nlohmann::json& question, Problems& wrong);
Result<Resources> exact_resources(const nlohmann::json& value, const std::string& what);
Result<GangRequest> request_from(const nlohmann::json& request);
PlacementAnswer answer_case(const DescribedCluster& cluster, const GangRequest& request,
                            const std::string& soft_target);
nlohmann::json answer_json(const PlacementAnswer& answer);
std::string answer_line(const std::string& line);  // a line in, a line out; what is wrong with it is its answer

}  // namespace rtrain::cmd
