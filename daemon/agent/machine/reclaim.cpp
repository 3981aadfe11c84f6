// Ends an agent whose node is taken away: by SIGTERM to an agent that drains, or by its cloud. The head moves the
// node's runs. Workers that are still here shortly before the end get SIGTERM, then SIGKILL, so none remains.
//   asked ─Leaving─► head drains ─► runs move at their commits ─ stop_at: SIGTERM ─ kill_at: SIGKILL ─► EndAgent
#include <algorithm>

#include "daemon/agent/machine/steps.hpp"

namespace rtrain::agent {

using namespace protocol;

namespace {

constexpr std::int64_t reserve_most_ms = 5'000;  // part of the grace that is kept for SIGTERM and the rest
// Time for the head to receive the message on an idle node; otherwise it may place a run here.
constexpr std::int64_t settle_ms = 200;
constexpr std::int64_t last_news_ms = 1'000;  // after the kill

// Returns true if the agent has no attempt left and has delivered all pending messages to the head. The next attempt of
// the runs may start elsewhere.
bool nothing_left(const AgentState& state, Time now) {
    return state.attempts.empty() && (state.outbox.empty() || state.left) &&
           now >= state.reclaim->asked_at + Duration{settle_ms};
}

}  // namespace

std::optional<Leaving> leaving(const Step& step) {
    const auto& reclaim = step.state.reclaim;
    if (!reclaim) return std::nullopt;
    return Leaving{.why = reclaim->why, .left_ms = std::max<std::int64_t>((reclaim->stop_at - step.now).ms, 0)};
}

// Starts the reclaim. A second order can only shorten the time, and make the agent end.
void on(Step& step, const ReclaimAsked& input) {
    AgentState& state = step.state;
    const std::int64_t grace = std::max<std::int64_t>(input.grace_ms, 0);
    const Time kill_at = step.now + Duration{grace};
    const bool ends = input.ends || (state.reclaim && state.reclaim->ends);
    if (state.reclaim && state.reclaim->kill_at <= kill_at) {
        state.reclaim->ends = ends;
        return;
    }
    const Time stop_at = step.now + Duration{grace - std::min(grace / 4, reserve_most_ms)};
    state.reclaim =
        Reclaim{.why = input.why, .asked_at = step.now, .stop_at = stop_at, .kill_at = kill_at, .ends = ends};
    if (state.registered) step.out.push_back(ToHead{*leaving(step)});
}

void on(Step& step, const AgentDialled& input) {
    if (step.state.registered) step.out.push_back(ToHead{PeerDialled{.id = input.id, .answered = input.answered}});
}

void reclaim_time(Step& step) {
    AgentState& state = step.state;
    if (!state.reclaim || state.reclaim->ended) return;
    Reclaim& reclaim = *state.reclaim;
    if (step.now >= reclaim.stop_at) {  // also ends workers that a late order starts
        reclaim.stopping = true;
        for (auto& [key, attempt] : state.attempts)
            if (attempt.phase == Phase::fetching || attempt.phase == Phase::running ||
                (attempt.phase == Phase::ending && attempt.kill_at && *attempt.kill_at > reclaim.kill_at))
                end_workers(step, attempt, (reclaim.kill_at - step.now).ms);
    }
    const bool over = step.now >= reclaim.kill_at + Duration{last_news_ms};
    if (!reclaim.ends || !(over || nothing_left(state, step.now))) return;
    reclaim.ended = true;
    step.out.push_back(EndAgent{reclaim.why});
}

std::optional<Time> next_reclaim(const AgentState& state) {
    if (!state.reclaim || state.reclaim->ended) return std::nullopt;
    const Reclaim& reclaim = *state.reclaim;
    std::optional<Time> at;
    if (!reclaim.stopping) at = reclaim.stop_at;
    if (!reclaim.ends) return at;
    const bool settles = state.attempts.empty() && state.outbox.empty();
    const Time end = settles ? reclaim.asked_at + Duration{settle_ms} : reclaim.kill_at + Duration{last_news_ms};
    return at ? std::min(*at, end) : end;
}

}  // namespace rtrain::agent
