// The core of the scheduler: it takes one event, and returns what to save and what to do. It reads no clock, socket,
// file or random device.
//
//   event ─► decide(cluster, now, event) ─► Decision{save, act}
//
// The shell makes `save` durable together with the event in one transaction, then performs `act` in order. Results of
// effects come back as events. An event about an attempt that is over changes nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/index/cluster.hpp"
#include "scheduler/model/decision.hpp"
#include "scheduler/model/events.hpp"

namespace rtrain {

Decision decide(Cluster& cluster, Time now, const Event& event);
// Returns the time at which TimePassed is due. Returns nullopt if nothing waits for a time.
std::optional<Time> next_wake(const Cluster& cluster);

void apply(Cluster& cluster, const Record& record);           // applies one record while a state is opened from disk
std::vector<std::string> invariants(const Cluster& cluster);  // returns a text for each invariant that does not hold

}  // namespace rtrain
