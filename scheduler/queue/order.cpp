// Who is placed next: the waiting runs in their order. Priority; then those who have a reservation, or retry in a
// moment; then gangs that have waited long; then the queue that has had the least of its share; then age. Runs of equal
// shape stand together, so that one refusal answers for all of them.
#include "scheduler/queue/order.hpp"

#include <algorithm>
#include <functional>

#include "scheduler/model/derived.hpp"
#include "scheduler/model/limits.hpp"

namespace rtrain {
namespace core {

Order::Order(const Ledger& ledger, FairShare shares, Time now)
    : ledger_(ledger),
      shares_(std::move(shares)),
      keep_place_(ledger.keep_place(now + limits::backoff_keeps_place)),
      now_(now),
      line_(ledger.waiting().begin()) {
    open_priority();
}

// The lines of the next priority.
void Order::open_priority() {
    while (lines_.empty() && line_ != ledger_.waiting().end()) {
        const std::int32_t priority = line_->first.priority;
        for (const RunId id : keep_place_)
            if (const Line& line = ledger_.line_of(id); line.priority == priority)
                promise(line, ledger_.shape_of(id), id,
                        ledger_.reserving().contains(id) ? Claim::promise : Claim::none);
        for (; line_ != ledger_.waiting().end() && line_->first.priority == priority; ++line_) {
            Open open{.line = &line_->first, .batches = &line_->second, .heads = {}};
            open.heads.reserve(line_->second.size());
            for (const auto& [shape, batch] : line_->second) open.heads.emplace_back(*batch.by_age.begin(), shape);
            std::sort(open.heads.rbegin(), open.heads.rend());
            if (!open.heads.empty()) lines_.push_back(std::move(open));
        }
        add_starving();
        std::reverse(promised_.begin(), promised_.end());
    }
}

// Gangs that have waited long come right after those that have a promise, whatever their queue has had: else a queue
// beyond its share would leave its large gangs to starve behind the small runs of others. The oldest of each queue.
void Order::add_starving() {
    for (const Open& open : lines_) {
        std::vector<std::pair<Waiter, std::uint32_t>> oldest;
        for (const auto& [shape, batch] : *open.batches) {
            const GangRequest& gang = ledger_.shape(shape).gang;
            if (gang.driver || gang.bundles.size() < 2) continue;
            std::size_t looked_at = 0;
            for (const Waiter& waiter : batch.by_age) {
                if (looked_at++ == limits::starving_of_each_queue || now_ - waiter.submitted < limits::starves_after)
                    break;
                oldest.emplace_back(waiter, shape);
            }
        }
        std::sort(oldest.begin(), oldest.end());
        if (oldest.size() > limits::starving_of_each_queue) oldest.resize(limits::starving_of_each_queue);
        for (const auto& [waiter, shape] : oldest) promise(*open.line, shape, waiter.id, Claim::starving);
    }
}

void Order::promise(const Line& line, std::uint32_t shape, RunId run, Claim claim) {
    const auto known =
        std::find_if(promised_.begin(), promised_.end(), [&](const Turn& turn) { return turn.run == run; });
    if (known != promised_.end())
        known->claim = claim;
    else
        promised_.push_back({.line = &line, .shape = shape, .run = run, .claim = claim});
}

std::optional<Turn> Order::next() {
    while (true) {
        if (!promised_.empty()) {
            const Turn turn = promised_.back();
            promised_.pop_back();
            seen_.insert(turn.run);
            return turn;
        }
        const std::optional<Turn> turn = next_by_share();
        if (turn && !seen_.contains(turn->run)) return turn;
        if (!turn && promised_.empty()) return std::nullopt;
    }
}

std::optional<Turn> Order::next_by_share() {
    std::erase_if(lines_, [](const Open& open) { return open.heads.empty(); });
    if (lines_.empty()) {
        open_priority();
        if (!promised_.empty()) return std::nullopt;
    }
    if (lines_.empty()) return std::nullopt;
    std::size_t best = 0;
    std::int64_t least = lines_.size() > 1 ? shares_.of(lines_[0].line->queue) : 0;
    for (std::size_t i = 1; i < lines_.size(); ++i) {
        const std::int64_t mine = shares_.of(lines_[i].line->queue);
        const bool older = lines_[i].heads.back().first < lines_[best].heads.back().first;
        if (mine > least || (mine == least && !older)) continue;
        best = i;
        least = mine;
    }
    Open& open = lines_[best];
    const auto [waiter, shape] = open.heads.back();
    open.heads.pop_back();
    const auto batch = open.batches->find(shape);
    if (batch != open.batches->end())
        if (const auto after = batch->second.by_age.upper_bound(waiter); after != batch->second.by_age.end()) {
            const std::pair next{*after, shape};
            open.heads.insert(std::upper_bound(open.heads.begin(), open.heads.end(), next, std::greater<>()), next);
        }
    if (lines_.size() > 1) shares_.count(open.line->queue, ledger_.shape(shape).total);
    return Turn{.line = open.line, .shape = shape, .run = waiter.id};
}

void Order::skip(const Turn& turn) {
    for (Open& open : lines_)
        if (open.line == turn.line)
            std::erase_if(open.heads, [&](const auto& head) { return head.second == turn.shape; });
}

}  // namespace core

std::vector<RunId> queue_order(const Cluster& cluster) {
    Ledger made;
    const Ledger& ledger = in_step(cluster, made);
    core::Order order(ledger, core::FairShare(cluster, ledger, cluster.meta.now), cluster.meta.now);
    std::vector<RunId> runs;
    while (const auto turn = order.next()) runs.push_back(turn->run);
    return runs;
}

}  // namespace rtrain
