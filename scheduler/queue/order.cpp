// Orders the waiting runs: those that yield are the last; by priority; then runs with a reservation or a retry within
// seconds; then gangs that have waited long; then by the queue with the least use of its share; then by age. Runs of
// equal shape form a batch, so that one refusal counts for all of them.
#include "scheduler/queue/order.hpp"

#include <algorithm>
#include <functional>

#include "scheduler/model/derived.hpp"
#include "scheduler/model/limits.hpp"

namespace rtrain {
namespace core {

Order::Order(const ClusterIndex& index, FairShare shares, Time now, Of which)
    : index_(index),
      shares_(std::move(shares)),
      position_holders_(index.position_holders(now + limits::backoff_keeps_place)),
      now_(now),
      line_(which == Of::all ? index.waiting().begin()
                             : index.waiting().lower_bound({.yields = true, .priority = INT32_MAX, .queue = {}})) {
    open_priority();
}

// Opens the lines of the next lower priority that has waiting runs.
void Order::open_priority() {
    while (lines_.empty() && line_ != index_.waiting().end()) {
        const bool yields = line_->first.yields;
        const std::int32_t priority = line_->first.priority;
        for (const RunId id : position_holders_) {
            if (!index_.waits(id)) continue;  // It was placed while the lines of a higher priority were open.
            if (const Line& line = index_.line_of(id); line.priority == priority && line.yields == yields)
                add_claim(line, index_.shape_of(id), id,
                          index_.reserving().contains(id) ? Claim::reservation : Claim::none);
        }
        for (; line_ != index_.waiting().end() && line_->first.priority == priority && line_->first.yields == yields;
             ++line_) {
            Open open{.line = &line_->first, .batches = &line_->second, .heads = {}};
            open.heads.reserve(line_->second.size());
            for (const auto& [shape, batch] : line_->second) open.heads.emplace_back(*batch.by_age.begin(), shape);
            std::sort(open.heads.rbegin(), open.heads.rend());
            if (!open.heads.empty()) lines_.push_back(std::move(open));
        }
        add_starving();
        std::reverse(claims_.begin(), claims_.end());
    }
}

// Adds the oldest gangs of each queue that have waited long. They come right after the runs that keep their place,
// whatever their queue has used. Otherwise the large gangs of a queue beyond its share would starve behind the small
// runs of other queues.
void Order::add_starving() {
    for (const Open& open : lines_) {
        std::vector<std::pair<Waiter, std::uint32_t>> oldest;
        for (const auto& [shape, batch] : *open.batches) {
            const Shape& wanted = index_.shape(shape);
            if (wanted.gang.bundles.size() < 2 || wanted.total.empty()) continue;
            std::size_t looked_at = 0;
            for (const Waiter& waiter : batch.by_age) {
                if (looked_at++ == limits::starving_of_each_queue || now_ - waiter.submitted < limits::starves_after)
                    break;
                oldest.emplace_back(waiter, shape);
            }
        }
        std::sort(oldest.begin(), oldest.end());
        if (oldest.size() > limits::starving_of_each_queue) oldest.resize(limits::starving_of_each_queue);
        for (const auto& [waiter, shape] : oldest) add_claim(*open.line, shape, waiter.id, Claim::starving);
    }
}

void Order::add_claim(const Line& line, std::uint32_t shape, RunId run, Claim claim) {
    const auto known =
        std::find_if(claims_.begin(), claims_.end(), [&](const Candidate& candidate) { return candidate.run == run; });
    if (known != claims_.end())
        known->claim = claim;
    else
        claims_.push_back({.line = &line, .shape = shape, .run = run, .claim = claim});
}

std::optional<Candidate> Order::next() {
    while (true) {
        if (!claims_.empty()) {
            const Candidate candidate = claims_.back();
            claims_.pop_back();
            seen_.insert(candidate.run);
            others_of_shape_ = true;
            return candidate;
        }
        const std::optional<Candidate> candidate = next_by_share();
        if (candidate && !seen_.contains(candidate->run)) return candidate;
        if (!candidate && claims_.empty()) return std::nullopt;
    }
}

std::optional<Candidate> Order::next_by_share() {
    std::erase_if(lines_, [](const Open& open) { return open.heads.empty(); });
    if (lines_.empty()) {
        open_priority();
        if (!claims_.empty()) return std::nullopt;
    }
    if (lines_.empty()) return std::nullopt;
    std::size_t best = 0;
    std::int64_t least = lines_.size() > 1 ? shares_.of(lines_[0].line->queue) : 0;
    for (std::size_t i = 1; i < lines_.size(); ++i) {
        const std::int64_t share = shares_.of(lines_[i].line->queue);
        const bool older = lines_[i].heads.back().first < lines_[best].heads.back().first;
        if (share > least || (share == least && !older)) continue;
        best = i;
        least = share;
    }
    Open& open = lines_[best];
    const auto [waiter, shape] = open.heads.back();
    open.heads.pop_back();
    others_of_shape_ = false;
    const auto batch = open.batches->find(shape);
    if (batch != open.batches->end())
        if (const auto after = batch->second.by_age.upper_bound(waiter); after != batch->second.by_age.end()) {
            const std::pair next{*after, shape};
            open.heads.insert(std::upper_bound(open.heads.begin(), open.heads.end(), next, std::greater<>()), next);
            others_of_shape_ = true;
        }
    if (lines_.size() > 1) shares_.count(open.line->queue, index_.shape(shape).total);
    return Candidate{.line = open.line, .shape = shape, .run = waiter.id};
}

void Order::skip(const Candidate& candidate) {
    if (!others_of_shape_) return;
    for (Open& open : lines_)
        if (open.line == candidate.line)
            std::erase_if(open.heads, [&](const auto& head) { return head.second == candidate.shape; });
}

}  // namespace core

std::vector<RunId> queue_order(const Cluster& cluster) {
    ClusterIndex scratch;
    const ClusterIndex& index = in_step(cluster, scratch);
    core::Order order(index, core::FairShare(cluster, index, cluster.meta.now), cluster.meta.now);
    std::vector<RunId> runs;
    while (const auto candidate = order.next()) runs.push_back(candidate->run);
    return runs;
}

}  // namespace rtrain
