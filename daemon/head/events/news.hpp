// News of agents become events of the core. Agents know an attempt by (run, incarnation), since its number is settled
// only by the claim; the core knows it by (run, number). Pure.
#pragma once

#include <optional>
#include <string>

#include "daemon/protocol/messages.hpp"
#include "scheduler/controller.hpp"

namespace rtrain::head {

const Attempt* find_attempt(const Cluster& cluster, const protocol::AttemptRef& ref);  // by incarnation, else by number
protocol::AttemptRef reference(const Attempt& attempt);

// Returns the event that a piece of news is to the core; nothing where it goes to tables beside the core (reports,
// notices).
std::optional<Event> event_of(const Cluster& cluster, const NodeId& node, Time now, const protocol::News& news);
Event registered(const Cluster& cluster, const NodeId& node, const protocol::Register& registration,
                 const std::string& far_address);

}  // namespace rtrain::head
