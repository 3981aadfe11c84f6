// Decides by the records which messages and files a node's certificate allows. A node reports on its own part of the
// attempts placed on it, and accesses only the files of these runs. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "daemon/protocol/messages.hpp"
#include "scheduler/controller.hpp"

namespace rtrain::head {

// Returns why `node` may not send this message; nullopt if it may. Late news of ended attempts are checked against
// these attempts' records. Messages about a run without a record are allowed, since they have no effect. A batch of
// news is allowed here: each item is checked separately.
std::optional<std::string> objection(const Cluster& cluster, const NodeId& node, const protocol::FromAgent& message);
std::optional<std::string> objection(const Cluster& cluster, const NodeId& node, const protocol::News& news);

// Returns true if the message is about an attempt without a record, of a run that has one. An honest agent may send
// such a message after the head's state was restored from a backup. It is ignored too, but not treated as an attack.
bool of_unknown_attempt(const Cluster& cluster, const protocol::FromAgent& message);
bool of_unknown_attempt(const Cluster& cluster, const protocol::News& news);

// Returns true if `node` may access `path` of cluster://. Allowed are paths below the directory of a run with an
// attempt on it: a live one, or one that ended so recently that its agent may still deliver logs and the last
// checkpoint, also while the run continues elsewhere. A node with an order to remove a checkpoint may access that
// checkpoint, its name's claim, and the claims of its run. `now` is the cluster's time. `named`: the runs with the name
// with which the path begins (run_named_in).
enum class Touch { read, write };
bool reaches_file(const Cluster& cluster, const std::set<RunId>& named, const NodeId& node, const std::string& path,
                  Touch touch, Time now);
// returns the run name with which the path begins; also for a node's probe file, which lies beside the runs
std::string run_named_in(const std::string& path, const NodeId& node);

}  // namespace rtrain::head
