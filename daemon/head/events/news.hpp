// Converts news of agents to events of the core. An agent identifies an attempt by (run, incarnation), since only the
// claim settles its number. The core uses (run, number). Pure.
#pragma once

#include <optional>
#include <string>

#include "daemon/protocol/messages.hpp"
#include "scheduler/controller.hpp"

namespace rtrain::head {

// Finds the attempt by its incarnation; without an incarnation, by its number.
const Attempt* find_attempt(const Cluster& cluster, const protocol::AttemptRef& ref);
protocol::AttemptRef reference(const Attempt& attempt);

// Returns the event for a piece of news. Returns nullopt for reports and notices, which are stored in tables beside the
// core.
std::optional<Event> event_of(const Cluster& cluster, const NodeId& node, Time now, const protocol::News& news);
Event registered(const Cluster& cluster, const NodeId& node, const protocol::Register& registration,
                 const std::string& far_address);

}  // namespace rtrain::head
