// Effects of the core become orders to agents, filled from the records. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "daemon/protocol/messages.hpp"
#include "scheduler/controller.hpp"

namespace rtrain::head {

// The data of an order beside the records. The caller looks it up.
struct OrderFacts {
    std::string code_sha256;
    std::map<std::string, std::string> secrets;
    std::string token;        // RTRAIN_TOKEN of the run
    std::string result_json;  // for WriteResult
};
// Returns the rights with which a run's storage path is used. `secrets`: those of its job, empty after its end.
protocol::StorageAccess storage_access(const Run& run, const std::map<std::string, std::string>& secrets);
bool on_s3(const Run& run);
NodeId addressee(const Effect& effect);
RunId about(const Effect& effect);
// Returns the order for the effect; nullopt if the attempt has been removed, so that there is nothing to order.
std::optional<protocol::FromHead> order_of(const Cluster& cluster, const Effect& effect, const OrderFacts& facts);
// Returns true for the start of an attempt that began to end, or was removed, after the decision. Its node may have
// registered again meanwhile, and must not start an attempt that it did not hold then.
bool overtaken(const Cluster& cluster, const Effect& effect);

}  // namespace rtrain::head
