#include "daemon/agent/loop/agent_loop.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "daemon/agent/base/clocks.hpp"

namespace rtrain::agent {

void AgentLoop::enqueue(Input input) {
    inputs_.push_back(std::move(input));
    if (stepping_) return;
    stepping_ = true;
    while (!inputs_.empty()) {
        Input next = std::move(inputs_.front());
        inputs_.pop_front();
        for (WorkerMessage& report : steps_.posted()) take(std::move(report));
        take(std::move(next));
    }
    stepping_ = false;
    set_timer();
}

void AgentLoop::enqueue_later(Input input) {
    net_.post([this, input = std::move(input)]() mutable { enqueue(std::move(input)); });
}

void AgentLoop::take(Input input) {
    if (auto* message = std::get_if<WorkerMessage>(&input)) steps_.check(*message);
    const std::int64_t now = boot_ms();
    state_.wall_minus_now_ms = wall_ms() - now;
    for (Output& output : step(state_, Time{now}, input)) steps_.perform(std::move(output));
    steps_.wake();
}

// Sets the timer of the next wake. A timer that fires too early sets the next one. That is cheaper than a new timer
// with every report.
void AgentLoop::set_timer() {
    const auto at = next_wake(state_);
    if (!at || (timer_ != 0 && timer_at_ <= *at)) return;
    if (timer_ != 0) net_.cancel(timer_);
    timer_at_ = *at;
    timer_ = net_.after(std::max<std::int64_t>(at->ms - boot_ms(), 1), [this] {
        timer_ = 0;
        enqueue(TimerFired{});
    });
}

// ---- inputs.hpp
void Inputs::enqueue(Input input) const { loop_->enqueue(std::move(input)); }
void Inputs::enqueue_later(Input input) const { loop_->enqueue_later(std::move(input)); }

}  // namespace rtrain::agent
