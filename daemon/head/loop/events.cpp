// Accepts events and the data saved beside them, and starts decisions. See event_loop.hpp for the picture.
#include <utility>

#include "daemon/head/loop/auditing.hpp"
#include "daemon/head/loop/event_loop.hpp"
#include "daemon/net/loop/posted.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t acknowledge_pause_ms = 50;  // ms; news that arrive within this time share one write

}  // namespace

EventLoop::EventLoop(net::Loop& loop, state::SqliteJournal& journal, const Clock& clock, metrics::Metrics& metrics)
    : loop_(loop), journal_(journal), clock_(clock), metrics_(metrics), cluster_(journal.opened()) {}

void EventLoop::take(Event event, Answer answer) {
    RTRAIN_CHECK(steps_.decided != nullptr, "an event came before EventLoop::connect");
    const std::int64_t posted_us = net::posted_us();
    waiting_.push_back(
        {std::move(event), std::move(answer), posted_us == 0 ? monotonic_us() : posted_us, taken_audit()});
    post_decide();
}

void EventLoop::save(Aside aside) {
    Pending& next = queue_.newest();
    for (const auto& [key, value] : aside.settings) next.batch.settings[key] = value;
    for (const state::TokenRow& token : aside.tokens) next.batch.tokens.push_back(token);
    // data without `done` belongs to an event, and that event has the audit row
    if (aside.done) next.add(taken_audit());
    next.rows += aside.settings.size() + aside.tokens.size();
    next.asides.push_back(std::move(aside));
    post_decide();
}

std::optional<state::AuditRow> EventLoop::taken_audit() {
    return auditing_ ? std::exchange(*auditing_, std::nullopt) : std::nullopt;
}

void EventLoop::post_decide() {
    if (std::exchange(decide_posted_, true)) return;
    loop_.next([this] { decide_and_commit(); });
}

void EventLoop::decide_when_full() {
    if (full()) post_decide();
}

void EventLoop::later_acknowledge() {
    if (std::exchange(acknowledging_, true)) return;
    loop_.after(acknowledge_pause_ms, [this] { acknowledge(); });
}

void EventLoop::acknowledge() {
    acknowledging_ = false;
    queue_.newest().then.emplace_back([this] { steps_.acknowledge(); });
    decide_and_commit();  // news can be acknowledged only after they were decided
}

// ---- auditing.hpp
Auditing::Auditing(Intake events, const AuditDraft& draft)
    : events_(*events.loop_), before_(std::exchange(events_.auditing_, draft.get())), draft_(draft) {}
Auditing::~Auditing() { events_.auditing_ = before_; }

// ---- intake.hpp
void Intake::take(Event event, Answer answer) const { loop_->take(std::move(event), std::move(answer)); }
void Intake::save(Aside aside) const { loop_->save(std::move(aside)); }
void Intake::note(state::Notice notice) const { loop_->note(std::move(notice)); }
void Intake::decide_when_full() const { loop_->decide_when_full(); }
void Intake::later_acknowledge() const { loop_->later_acknowledge(); }

}  // namespace rtrain::head
