// Yielding runs in a scheduling cycle. After all other runs were considered, those that wait and would start if
// yielding runs ended are found, and these end. Last, yielding runs start in what is free beyond that.
#include <algorithm>

#include "scheduler/cycle/cycle.hpp"
#include "scheduler/lifecycle/handlers.hpp"
#include "scheduler/model/limits.hpp"

namespace rtrain::core {
namespace {

bool awaits_a_node(const ClusterIndex& index) {
    const auto& nodes = index.nodes();
    return std::any_of(nodes.begin(), nodes.end(), [](const NodeView& node) { return node.awaited; });
}

}  // namespace

// Each waiting run claims its seats, so that those behind it count on others. The room of awaited nodes is not known
// yet.
void Cycle::end_yielding() {
    if (index_.yielding().empty()) return;
    change_.settle();
    yielded_.emplace(change_.seen(), quotas_);
    if (awaits_a_node(index_) || yielding_attempts(change_.seen()).empty()) return;
    Order order(index_, FairShare(change_.seen(), index_, change_.now()), change_.now());
    std::size_t looks = limits::yielding_looks_most;
    for (auto next = order.next(); next && !next->line->yields && looks > 0; next = order.next()) {
        const Run& run = change_.seen().runs.at(next->run);
        if (run.retry_at > change_.now() || index_.shape(next->shape).total.empty() || quota_reserved_.contains(run.id))
            continue;
        const SeatsWanted wanted{.run = run,
                                 .gang = index_.shape(next->shape).gang,
                                 .who = borrower(run, change_.now()),
                                 .open = open_to(run)};
        if (!yielded_->within_quota(wanted)) {
            order.skip(*next);
            continue;
        }
        const auto refused = refused_by_yielding_.find(next->shape);
        if (refused != refused_by_yielding_.end() && (wanted.open & ~refused->second) == 0) continue;
        --looks;
        const bool on_own_seats =
            run.seats_reserved.size() == wanted.gang.bundles.size() && yielded_->fits(wanted, run.seats_reserved);
        const auto seats = on_own_seats ? std::optional(run.seats_reserved) : yielded_->seats_for(wanted);
        if (!seats) refused_by_yielding_[next->shape] = wanted.open;
        if (!seats) continue;
        for (const RunId victim : yielded_->claim(wanted, *seats)) end_for(change_, victim, run);
    }
    change_.settle();
}

// Returns the nodes beside all reservations, without what waiting runs have claimed and without those of growing runs.
std::vector<NodeView> Cycle::left_to_yielding() const {
    constexpr ReservationMask all_closed = 0;
    std::vector<NodeView> nodes = index_.nodes(all_closed);
    yielded_->take_claimed(nodes);
    std::erase_if(nodes, [&](const NodeView& node) { return growing_on_.contains(node.id); });
    return nodes;
}

void Cycle::start_yielding() {
    const auto& waiting = index_.waiting();
    if (!yielded_ || awaits_a_node(index_) || waiting.empty() || !waiting.rbegin()->first.yields) return;
    Quotas quotas = yielded_->quotas_with_claims();
    std::set<std::uint32_t> refused;
    Order order(index_, FairShare(change_.seen(), index_, change_.now()), change_.now(), Order::Of::yielding);
    while (const auto next = order.next()) {
        const Run& run = change_.seen().runs.at(next->run);
        if (run.retry_at > change_.now()) continue;
        const Sums demand = index_.shape(next->shape).total;
        if (const auto over = quotas.refuses(run.spec.queue, demand, borrower(run, change_.now()))) {
            if (run.state == RunState::queued) give_reason(run.id, reason_of(*over));
            order.skip(*next);
            continue;
        }
        if (refused.contains(next->shape)) continue;
        const PlacementAnswer answer = rtrain::place(left_to_yielding(), index_.shape(next->shape).gang);
        if (answer.verdict != Verdict::feasible_now) {
            refused.insert(next->shape);
            continue;
        }
        quotas.count(run.spec.queue, demand);
        quotas.count_user(run, demand);
        place_on(*next, run, answer.seats);
    }
}

}  // namespace rtrain::core
