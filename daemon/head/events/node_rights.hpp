// Decides by the records what a node's certificate may do: a node reports on its own part of the attempts placed on it,
// and reaches the files of these runs only. Pure.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "daemon/protocol/messages.hpp"
#include "scheduler/controller.hpp"

namespace rtrain::head {

// Why `node` may not say this; none: it may. Late news of attempts that have ended are judged by these attempts'
// records. What speaks of a run that has no record is allowed, since it changes nothing. A batch of news is allowed
// here: each of its items is judged alone.
std::optional<std::string> objection(const Cluster& cluster, const NodeId& node, const protocol::FromAgent& message);
std::optional<std::string> objection(const Cluster& cluster, const NodeId& node, const protocol::News& news);

// Returns whether the message speaks of an attempt without a record, of a run that has one. An honest agent may do so
// after a backup of the head's state was restored: that is not believed either, and nobody is blamed for it.
bool of_unknown_attempt(const Cluster& cluster, const protocol::FromAgent& message);
bool of_unknown_attempt(const Cluster& cluster, const protocol::News& news);

// May `node` read, write and remove `path` of cluster://? Only beneath the directory of a run that has an attempt on
// it: a live one, or one that ended so lately that its agent may still deliver logs and the last checkpoint, also while
// the run goes on elsewhere. A node
// that was ordered to remove a checkpoint reaches that one, its name's claim, and the claims of its run. `now` is the
// cluster's time. `named`: the runs of the name that the path begins with (run_named_in).
enum class Touch { read, write };
bool reaches_file(const Cluster& cluster, const std::set<RunId>& named, const NodeId& node, const std::string& path,
                  Touch touch, Time now);
std::string run_named_in(const std::string& path, const NodeId& node);  // also of a node's probe file beside the runs

}  // namespace rtrain::head
