// Makes messages to agents (orders) from the effects of the core and the records. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "daemon/protocol/messages.hpp"
#include "scheduler/controller.hpp"

namespace rtrain::head {

// Data that an order to an agent needs in addition to the scheduler's records. The caller looks it up.
struct OrderFacts {
    std::string code_sha256;
    std::map<std::string, std::string> secrets;
    std::string token;        // RTRAIN_TOKEN of the run
    std::string result_json;  // the content of result.json, for the effect WriteResult
};
// Returns the rights with which a run's storage path is used. `secrets`: the secrets of its job; empty after its end.
protocol::StorageAccess storage_access(const Run& run, const std::map<std::string, std::string>& secrets);
bool in_bucket(const Run& run);
NodeId addressee(const Effect& effect);
RunId about(const Effect& effect);
// Returns the message to the agent that carries out the effect. Returns nullopt if the attempt has been removed, so
// that nothing is left to do.
std::optional<protocol::FromHead> order_of(const Cluster& cluster, const Effect& effect, const OrderFacts& facts);
// Returns true if the effect starts an attempt that began to end, or was removed, after the decision. Its node may have
// registered again meanwhile, and must not start an attempt that it did not hold then.
bool overtaken(const Cluster& cluster, const Effect& effect);

}  // namespace rtrain::head
