// See leases.hpp.
#include "daemon/head/events/leases.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t answer_ms = 500;  // ms beyond dial_ms in which a neighbour's answer may arrive

std::string seconds(std::int64_t ms) {
    return std::to_string(ms / 1'000) + "." + std::to_string(ms % 1'000 / 100) + " s";
}

}  // namespace

void Leases::known(const std::string& node, std::int64_t now) { leases_[node].heard = now; }

void Leases::heard(const std::string& node, std::int64_t now) {
    Lease& lease = leases_[node];
    lease.heard = now;
    lease.lost = false;
    lease.doubt.reset();
}

void Leases::connected(const std::string& node, bool is) {
    if (const auto entry = leases_.find(node); entry != leases_.end()) entry->second.connected = is;
}

LeaseSteps Leases::registered(const std::string& node, std::int64_t now, bool dials) {
    heard(node, now);
    Lease& lease = leases_[node];
    lease.connected = true;
    lease.dials = dials;
    lease.proven = false;  // the port must be proven again, since the node may have another address now
    if (!dials) return {};
    lease.dial = next_dial_++;
    return {.dial = {{.id = lease.dial, .by = dialled_by_head, .node = node}}, .lost = {}};
}

void Leases::held_up(std::int64_t ms) {
    for (auto& [node, lease] : leases_) {
        lease.heard += ms;
        lease.doubt.reset();
    }
}

std::int64_t Leases::heard_ms(const std::string& node) const {
    const auto entry = leases_.find(node);
    return entry == leases_.end() ? 0 : entry->second.heard;
}

void Leases::dialled(std::uint64_t id, const std::string& by, bool answered) {
    for (auto& [node, lease] : leases_) {
        if (lease.dial != id) continue;
        if (!lease.doubt) {
            lease.proven = lease.proven || (answered && by == dialled_by_head);
        } else if (lease.doubt->asked.contains(by)) {
            lease.doubt->answered = lease.doubt->answered || answered;
            if (!answered) lease.doubt->silent.insert(by);
        }
        return;
    }
}

// Returns nodes that have sent a message recently. Starts with those after `node` in the alphabet, so that different
// nodes get different neighbours.
std::vector<std::string> Leases::neighbours_of(const std::string& node, std::int64_t now) const {
    std::vector<std::string> chosen;
    const auto take = [&](auto from, auto to) {
        for (; from != to && chosen.size() < rules_.neighbours; ++from) {
            const Lease& lease = from->second;
            if (from->first == node || !lease.connected || !lease.dials || lease.lost) continue;
            if (now - lease.heard < rules_.doubt_ms) chosen.push_back(from->first);
        }
    };
    take(leases_.upper_bound(node), leases_.end());
    take(leases_.begin(), leases_.lower_bound(node));
    return chosen;
}

void Leases::begin_doubt(const std::string& node, Lease& lease, std::int64_t now, LeaseSteps& steps) {
    const std::vector<std::string> neighbours = neighbours_of(node, now);
    if (neighbours.size() < rules_.neighbours) return;
    lease.dial = next_dial_++;
    lease.doubt = Doubt{.asked = {neighbours.begin(), neighbours.end()}, .silent = {}, .answered = false, .since = now};
    lease.doubt->asked.insert(dialled_by_head);
    for (const std::string& by : lease.doubt->asked) steps.dial.push_back({.id = lease.dial, .by = by, .node = node});
}

void Leases::judge(const std::string& node, Lease& lease, std::int64_t now, LeaseSteps& steps) {
    const Doubt& doubt = *lease.doubt;
    if (!doubt.answered && doubt.silent == doubt.asked) {
        lease.lost = true;
        const std::int64_t silent = now - lease.heard;
        steps.lost.push_back({.node = node,
                              .why = "no heartbeat for " + seconds(silent) +
                                     ", and its machine answers neither the head nor " +
                                     std::to_string(rules_.neighbours) + " other nodes",
                              .silent_ms = silent});
        lease.doubt.reset();
    } else if (now - doubt.since >= rules_.dial_ms + answer_ms) {
        lease.doubt.reset();  // the doubt begins anew while the node is silent
    }
}

LeaseSteps Leases::check(std::int64_t now) {
    LeaseSteps steps;
    for (auto& [node, lease] : leases_) {
        if (lease.lost) continue;
        const std::int64_t silent = now - lease.heard;
        if (silent >= rules_.node_timeout_ms) {
            lease.lost = true;
            lease.doubt.reset();
            steps.lost.push_back({.node = node, .why = "no heartbeat for " + seconds(silent), .silent_ms = silent});
            continue;
        }
        if (lease.doubt) judge(node, lease, now, steps);
        if (!lease.lost && !lease.doubt && lease.proven && silent >= rules_.doubt_ms)
            begin_doubt(node, lease, now, steps);
    }
    return steps;
}

}  // namespace rtrain::head
