// Makes the connection attempts that Leases (events/leases.hpp) requests.
#include "daemon/head/sessions/sessions.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t lease_check_ms = 100, stalled_ms = 500;

}  // namespace

// Checks which leases have ended. Time for which the head itself was held up (suspended, a slow disk) does not count as
// silence.
void Sessions::check_leases() {
    const std::int64_t now = monotonic_ms();
    const std::int64_t held_up = now - leases_checked_ms_ - lease_check_ms;
    leases_checked_ms_ = now;
    if (held_up > stalled_ms) {
        leases_.held_up(held_up);
        for (auto& [name, seen] : seen_) seen.heard_ms += held_up;
    }
    const LeaseSteps steps = leases_.check(now);
    for (const LeaseLost& lost : steps.lost) {
        const auto node = uses_.view.cluster.nodes.find(NodeId{lost.node});
        if (node == uses_.view.cluster.nodes.end() || node->second.state == NodeState::lost) continue;
        take_lost_checkpoints(lost.node, "was lost");
        uses_.events.take(NodeLost{NodeId{lost.node}, lost.why, Duration{lost.silent_ms}});
        hang_up(lost.node, lost.why);
    }
    dial(steps.dial);
    uses_.background.after(lease_check_ms, [this] { check_leases(); });
}

void Sessions::take_lost_checkpoints(const std::string& node, const char* fate) {
    for (CheckpointLost& lost : uses_.view.reports.lost_with(uses_.view.cluster, NodeId{node}, fate)) {
        uses_.events.note({.wall_ms = wall_ms(),
                           .text = "a checkpoint was lost: " + lost.why,
                           .about_run = lost.attempt.run,
                           .about_node = NodeId{node}});
        uses_.events.take(std::move(lost));
    }
}

void Sessions::dial(const std::vector<LeaseDial>& dials) {
    for (const LeaseDial& dial : dials) {
        const auto entry = uses_.view.cluster.nodes.find(NodeId{dial.node});
        if (entry == uses_.view.cluster.nodes.end()) continue;
        const Node& node = entry->second;
        if (node.address.empty() || node.port == 0) continue;
        if (dial.by == dialled_by_head) {
            dial_here(dial, node);
            continue;
        }
        send(dial.by, protocol::DialPeer{.id = dial.id,
                                         .node = dial.node,
                                         .address = node.address,
                                         .port = node.port,
                                         .patience_ms = LeaseRules{}.dial_ms});
    }
}

void Sessions::dial_here(const LeaseDial& dial, const Node& node) {
    uses_.dial_port(node.address, node.port, LeaseRules{}.dial_ms, [this, id = dial.id](net::PortAnswer answer) {
        if (answer == net::PortAnswer::not_dialled) return;
        leases_.dialled(id, dialled_by_head, answer == net::PortAnswer::answered);
    });
}

}  // namespace rtrain::head
