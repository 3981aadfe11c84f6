// Between the agents' words (protocol) and the core's (events, effects): pure translation over the records. Agents know
// an attempt by (run, incarnation), since its number is settled only by the claim; the core knows it by (run, number).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/protocol/messages.hpp"
#include "scheduler/controller.hpp"

namespace rtrain::head {

const Attempt* find_attempt(const Cluster& cluster, const protocol::AttemptRef& ref);  // by incarnation, else by number
protocol::AttemptRef reference(const Attempt& attempt);

// What the core hears of a piece of news; none: it goes to tables beside the core (reports, notices).
std::optional<Event> event_of(const Cluster& cluster, const NodeId& node, const protocol::News& news);
Event registered(const Cluster& cluster, const NodeId& node, const protocol::Register& said,
                 const std::string& far_address);

// What orders carry beyond the records; looked up by the shell.
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
// None: the attempt is gone, there is nothing left to order.
std::optional<protocol::FromHead> order_of(const Cluster& cluster, const Effect& effect, const OrderFacts& facts);
// A start of an attempt that has begun to end, or is gone, since that was decided. Its node may have registered anew
// and told what it holds; it must not begin now what it did not hold then.
bool overtaken(const Cluster& cluster, const Effect& effect);

}  // namespace rtrain::head
