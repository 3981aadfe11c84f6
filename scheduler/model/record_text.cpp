// The words of every format for the closed sets of the records, in one table per set.
#include <array>
#include <string_view>
#include <utility>

#include "scheduler/model/records.hpp"

namespace rtrain {
namespace {

template <class Value, std::size_t Size>
using Words = std::array<std::pair<Value, const char*>, Size>;

constexpr Words<RunState, 9> run_states{{{RunState::queued, "QUEUED"},
                                         {RunState::starting, "STARTING"},
                                         {RunState::running, "RUNNING"},
                                         {RunState::recovering, "RECOVERING"},
                                         {RunState::resizing, "RESIZING"},
                                         {RunState::stopping, "STOPPING"},
                                         {RunState::succeeded, "SUCCEEDED"},
                                         {RunState::failed, "FAILED"},
                                         {RunState::stopped, "STOPPED"}}};
constexpr Words<AttemptState, 8> attempt_states{{{AttemptState::placed, "PLACED"},
                                                 {AttemptState::starting, "STARTING"},
                                                 {AttemptState::running, "RUNNING"},
                                                 {AttemptState::stopping, "STOPPING"},
                                                 {AttemptState::succeeded, "SUCCEEDED"},
                                                 {AttemptState::failed, "FAILED"},
                                                 {AttemptState::stopped, "STOPPED"},
                                                 {AttemptState::lost, "LOST"}}};
constexpr Words<WorkerState, 3> worker_states{
    {{WorkerState::placed, "PLACED"}, {WorkerState::running, "RUNNING"}, {WorkerState::exited, "EXITED"}}};
constexpr Words<NodeState, 4> node_states{{{NodeState::ready, "READY"},
                                           {NodeState::draining, "DRAINING"},
                                           {NodeState::quarantined, "QUARANTINED"},
                                           {NodeState::lost, "LOST"}}};
constexpr Words<Strategy, 4> strategies{{{Strategy::pack, "PACK"},
                                         {Strategy::spread, "SPREAD"},
                                         {Strategy::strict_pack, "STRICT_PACK"},
                                         {Strategy::strict_spread, "STRICT_SPREAD"}}};
constexpr Words<Verdict, 4> verdicts{{{Verdict::feasible_now, "feasible now"},
                                      {Verdict::pending, "pending"},
                                      {Verdict::infeasible, "infeasible"},
                                      {Verdict::invalid, "invalid"}}};

constexpr Words<AfterWhat, 2> after_whats{{{AfterWhat::succeeded, "succeeded"}, {AfterWhat::ended, "ended"}}};
constexpr Words<AskReason, 5> ask_reasons{{{AskReason::by_operator, "operator"},
                                           {AskReason::resize, "resize"},
                                           {AskReason::drain, "drain"},
                                           {AskReason::preemption, "preemption"},
                                           {AskReason::stop, "stop"}}};

template <class Value, std::size_t Size>
const char* word(const Words<Value, Size>& words, Value value) {
    for (const auto& [known, text] : words)
        if (known == value) return text;
    RTRAIN_CHECK(!"a value without a word", std::to_string(static_cast<int>(value)));
    return "";
}

template <class Value, std::size_t Size>
std::optional<Value> value_of(const Words<Value, Size>& words, std::string_view text) {
    for (const auto& [known, name] : words)
        if (text == name) return known;
    return std::nullopt;
}

}  // namespace

const char* to_text(RunState s) { return word(run_states, s); }
const char* to_text(AttemptState s) { return word(attempt_states, s); }
const char* to_text(WorkerState s) { return word(worker_states, s); }
const char* to_text(NodeState s) { return word(node_states, s); }
const char* to_text(Strategy s) { return word(strategies, s); }
const char* to_text(Verdict v) { return word(verdicts, v); }
const char* to_text(AfterWhat what) { return word(after_whats, what); }
const char* to_text(AskReason reason) { return word(ask_reasons, reason); }
std::optional<RunState> run_state(std::string_view text) { return value_of(run_states, text); }
std::optional<AttemptState> attempt_state(std::string_view text) { return value_of(attempt_states, text); }
std::optional<WorkerState> worker_state(std::string_view text) { return value_of(worker_states, text); }
std::optional<NodeState> node_state(std::string_view text) { return value_of(node_states, text); }
std::optional<Strategy> strategy(std::string_view text) { return value_of(strategies, text); }
std::optional<AfterWhat> after_what(std::string_view text) { return value_of(after_whats, text); }
std::optional<AskReason> ask_reason(std::string_view text) { return value_of(ask_reasons, text); }

}  // namespace rtrain
