// Performs the effects of durable changes, in order and in slices: orders to nodes, then answers. See event_loop.hpp
// for the picture.
#include <memory>
#include <utility>

#include "daemon/head/loop/event_loop.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t slice_us = 1'000;  // duration of a slice, in us, before the loop runs other tasks

}  // namespace

void EventLoop::hand_over(Pending durable) {
    for (Aside& aside : durable.asides)
        if (aside.done) durable_.push_back(std::move(aside.done));
    for (Pending::Decided& decided : durable.decided) {
        for (auto& order : decided.orders) durable_.push_back(std::move(order));
        const auto decisions = std::make_shared<const Decisions>(std::move(decided.decisions));
        durable_.emplace_back([this, decisions] { steps_.performed(*decisions); });
        for (std::size_t i = 0; i < decided.answers.size(); ++i)
            if (decided.answers[i])
                durable_.emplace_back(
                    [decisions, i, answer = std::move(decided.answers[i])] { answer(decisions->by_event[i]); });
    }
    for (auto& task : durable.once_durable) durable_.push_back(std::move(task));
    for (auto& task : durable.then) durable_.push_back(std::move(task));
}

void EventLoop::perform_some() {
    const std::int64_t until_us = monotonic_us() + slice_us;
    while (!durable_.empty()) {
        const Task task = std::move(durable_.front());
        durable_.pop_front();
        task();
        if (monotonic_us() >= until_us) break;
    }
    if (durable_.empty() || std::exchange(perform_posted_, true)) return;
    loop_.post([this] {
        perform_posted_ = false;
        perform_some();
    });
}

}  // namespace rtrain::head
