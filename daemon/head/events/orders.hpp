// Effects of the core become orders to agents, filled from the records. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "daemon/protocol/messages.hpp"
#include "scheduler/controller.hpp"

namespace rtrain::head {

// What orders carry beyond the records; looked up by the caller.
struct OrderFacts {
    std::string code_sha256;
    std::map<std::string, std::string> secrets;
    std::string token;        // RTRAIN_TOKEN of the run
    std::string result_json;  // WriteResult
};
// The rights that a run's storage path is used with; `secrets`: of its job, empty once they are forgotten.
protocol::StorageAccess storage_access(const Run& run, const std::map<std::string, std::string>& secrets);
bool on_s3(const Run& run);
NodeId addressee(const Effect& effect);
RunId about(const Effect& effect);
// Returns the order that carries the effect out. None: the attempt is gone, there is nothing left to order.
std::optional<protocol::FromHead> order_of(const Cluster& cluster, const Effect& effect, const OrderFacts& facts);
// A start of an attempt that has begun to end, or is gone, since that was decided. Its node may have registered anew
// and told what it holds; it must not begin now what it did not hold then.
bool overtaken(const Cluster& cluster, const Effect& effect);

}  // namespace rtrain::head
