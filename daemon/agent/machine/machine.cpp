// Takes one input and returns outputs. The parts are in news.cpp, attempt.cpp and group.cpp.
#include "daemon/agent/machine/machine.hpp"

#include <algorithm>

#include "daemon/agent/machine/steps.hpp"

namespace rtrain::agent {
namespace {

void earlier(std::optional<Time>& at, std::optional<Time> other) {
    if (other && (!at || *other < *at)) at = other;
}

}  // namespace

void on(Step& step, const TimerFired&) {
    if (step.state.registered && step.now >= step.state.heartbeat_at) beat(step);
    if (const auto due = news_wake(step.state); due && step.now >= *due) send_late_news(step);
    templates_time(step);
    std::vector<AttemptKey> keys;
    for (const auto& [key, attempt] : step.state.attempts) keys.push_back(key);
    for (const AttemptKey key : keys) {
        attempt_time(step, step.state.attempts.at(key));
        group_time(step, step.state.attempts.at(key));
        watch_time(step, step.state.attempts.at(key));
        settle_end(step, key);
    }
    reclaim_time(step);
}

Outputs step(AgentState& state, Time now, const Input& input) {
    Step step{state, now};
    std::visit([&](const auto& typed_input) { on(step, typed_input); }, input);
    if (state.reclaim && !std::holds_alternative<TimerFired>(input)) reclaim_time(step);
    return std::move(step.out);
}

std::optional<Time> next_wake(const AgentState& state) {
    std::optional<Time> at;
    if (state.registered) at = state.heartbeat_at;
    earlier(at, news_wake(state));
    earlier(at, next_reclaim(state));
    earlier(at, next_template(state));
    for (const auto& [key, attempt] : state.attempts) {
        earlier(at, attempt.kill_at);
        earlier(at, next_last_checkpoint(state, attempt));
        earlier(at, next_watch(state, attempt));
        if (attempt.local) earlier(at, next_wake(*attempt.local));
        if (attempt.coordinator) earlier(at, next_wake(*attempt.coordinator));
    }
    return at;
}

}  // namespace rtrain::agent
