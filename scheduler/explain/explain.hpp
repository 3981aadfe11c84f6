// Explains to people why a run is in its state.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/index/cluster.hpp"

namespace rtrain {

struct QueuePosition {
    std::uint32_t position = 0, length = 0;
    bool operator==(const QueuePosition&) const = default;
};
enum class Obstacle { not_ready, constraint, too_small, busy, reserved };
struct ReasonGroup {  // nodes on which the gang does not fit, for the same kind of reason
    std::uint32_t nodes = 0;
    Obstacle obstacle = Obstacle::busy;
    std::string kind;   // "GPUs busy", "constraint", "draining", ...
    std::string text;   // "n1-n3 by gpt-1b (ETA 2h11), n4 by vit (ETA unknown)"
    std::string field;  // field of the spec that causes the refusal: "scaling.label_selector"
};
// `refused`: the quota does not permit the start
enum class RuleKind { refused, quota, order, reservation, last_attempt };
struct Rule {
    RuleKind kind = RuleKind::order;
    std::string text;
    bool operator==(const Rule&) const = default;
};
struct Explanation {
    std::string headline;  // QUEUED 12m, position 1 of 2 in queue "default". Needs 4 nodes x 8 GPU, all at once.
    std::optional<QueuePosition> queue;
    std::vector<Rule> rules;                   // rules of the queue, and the last attempt
    std::optional<PlacementAnswer> placement;  // set for a waiting run: which nodes fit, and why others do not
    std::uint32_t nodes = 0, fitting = 0;  // number of nodes considered, and of nodes with room for at least one bundle
    std::vector<ReasonGroup> groups;       // nodes without room, grouped by reason; the largest group first
    std::vector<std::string> holders;      // "n1: 8 GPU by gpt-1b (attempt 2), ETA 2h11"
};
Explanation explain(const Cluster& cluster, Time now, RunId run, JobWords words);

}  // namespace rtrain
