// Reads a case (one question about a placement, as JSON) and answers it, for `rtrain plan --cases` and `--cluster`. No
// daemon, no network.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.hpp"
#include "scheduler/placement/placement.hpp"

namespace rtrain::cmd {

Error invalid(std::string message);                // the error of a case that cannot be answered
std::string text_of(const nlohmann::json& value);  // returns a string unchanged, and other values as JSON

// Parses JSON and keeps the digits of fractions (as strings), because amounts are exact decimals and a double is not.
// NaN and Infinity, which are not JSON but which some writers emit, become strings too, and are then refused as amounts
// by name.
Result<nlohmann::json> parse_exact(const std::string& text);

struct DescribedCluster {
    std::vector<NodeView> now;
    std::vector<NodeView> later;  // the nodes as they are after all other jobs have ended
    // key: the node; value: devices of the gang's own allocations there, one entry per allocation
    std::map<NodeId, std::vector<std::vector<GpuShare>>> own_gpus;
};
// Reads "nodes" and "allocations". All faults are reported at once, each with its path (nodes[2].state); the cluster
// must then not be used.
DescribedCluster cluster_from(const nlohmann::json& question, Problems& wrong);
Result<Resources> exact_resources(const nlohmann::json& value, const std::string& what);
Result<GangRequest> request_from(const nlohmann::json& request);
PlacementAnswer answer_case(const DescribedCluster& cluster, const GangRequest& request,
                            const std::string& soft_target);
nlohmann::json answer_json(const PlacementAnswer& answer);
// answers one line with one line; the answer to a faulty line is its fault
std::string answer_line(const std::string& line);

}  // namespace rtrain::cmd
