// Decides the waiting events in order, and starts their commit. See event_loop.hpp for the picture.
#include <algorithm>
#include <utility>

#include "daemon/head/loop/event_loop.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t wake_pause_ms = 5;  // ms; the least delay of a wake-up, also for a time that has passed

// In a debug build, compares the state and the index with a recount after every event.
void recount([[maybe_unused]] const Cluster& cluster) {
#ifndef NDEBUG
    const auto broken = invariants(cluster);
    RTRAIN_CHECK(broken.empty(), broken.front());
#endif
}

}  // namespace

void EventLoop::decide_and_commit() {
    decide_posted_ = false;
    if (*failure_) return;
    decide_waiting();
    if (full()) queue_.close([this](Pending& batch) { collect(batch); });
    begin_commit();
}

// Decides the waiting events in order.
void EventLoop::decide_waiting() {
    if (waiting_.empty()) return;
    std::vector<Waiting> inputs = std::exchange(waiting_, {});
    std::vector<Event> events;
    for (Waiting& input : inputs) events.push_back(std::move(input.event));

    const std::int64_t begun_us = monotonic_us();
    const auto check = [this] { recount(cluster_); };
    Pending::Decided decided{
        .decisions = decide_events(cluster_, clock_.now(), wall_ms(), events, check), .orders = {}, .answers = {}};
    const std::int64_t decided_us = monotonic_us();
    metrics_.scheduled(static_cast<double>(decided_us - begun_us) / 1e6);
    for (const Waiting& input : inputs) metrics_.decided(static_cast<double>(decided_us - input.came_us) / 1e6);
    steps_.decided(decided.decisions);
    for (const Decision& decision : decided.decisions.by_event)
        for (auto& order : steps_.orders(decision.act)) decided.orders.push_back(std::move(order));
    for (Waiting& input : inputs) decided.answers.push_back(std::move(input.answer));
    for (std::size_t i = 0; i < inputs.size(); ++i)
        add_audit(std::move(inputs[i].audit), decided.decisions.by_event[i]);
    queue_.newest().add(std::move(decided));
    wake();
}

// Adds the audit row to the newest batch, so that it is in the transaction of the change. A refused event changed
// nothing, so its row is dropped.
void EventLoop::add_audit(std::optional<state::AuditRow> row, const Decision& decision) {
    if (!row || decision.refused) return;
    if (decision.created) row->run = run_id_text(cluster_.meta.cluster_id, *decision.created);
    queue_.newest().add(std::move(row));
}

// Sets the timer for the next time at which something is due. A timer that is overdue is not set again, since a quick
// sequence of events would postpone it for ever.
void EventLoop::wake() {
    const auto due = next_wake(cluster_);
    if (due && wake_timer_ && overdue_ && *due <= clock_.now()) return;
    if (wake_timer_) loop_.cancel(*wake_timer_);
    wake_timer_.reset();
    if (!due) return;
    overdue_ = *due <= clock_.now();
    const std::int64_t delay = std::max((*due - clock_.now()).ms, wake_pause_ms);
    wake_timer_ = loop_.after(delay, [this] {
        wake_timer_.reset();
        take(TimePassed{});
    });
}

}  // namespace rtrain::head
