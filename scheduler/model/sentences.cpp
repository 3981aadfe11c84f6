// Makes text for people: the words of the closed sets (one table each, used by every format), the sentence of each
// reason, and the line of each event.
#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "scheduler/model/causes.hpp"
#include "scheduler/model/derived.hpp"
#include "scheduler/model/limits.hpp"
#include "scheduler/model/notes.hpp"
#include "scheduler/model/records.hpp"

namespace rtrain {

std::string span_text(Duration span) {
    constexpr std::array<std::pair<std::int64_t, const char*>, 4> spans{
        {{86'400'000, "day"}, {3'600'000, "hour"}, {60'000, "minute"}, {1'000, "second"}}};
    for (const auto& [ms, name] : spans)
        if (span.ms % ms == 0) return std::to_string(span.ms / ms) + " " + name + (span.ms / ms == 1 ? "" : "s");
    return std::to_string(span.ms) + " ms";
}

namespace {

// Returns a text about a signal that the system sends to a program for the program's own error. Other signals are sent
// by another process.
std::string signal_meaning(int signal) {
    switch (signal) {
        case 4:
            return " (SIGILL: an instruction that this processor does not have)";
        case 6:
            return " (SIGABRT: the program called abort())";
        case 7:
            return " (SIGBUS: /dev/shm is full, or a mapped file was cut)";
        case 8:
            return " (SIGFPE: an integer division by zero)";
        case 11:
            return " (SIGSEGV: an access to memory that is not the program's)";
        default:
            return "";
    }
}

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
constexpr Words<Yielding, 3> yieldings{
    {{Yielding::never, "never"}, {Yielding::paused, "paused"}, {Yielding::active, "active"}}};
constexpr Words<RequestReason, 5> request_reasons{{{RequestReason::by_operator, "operator"},
                                                   {RequestReason::resize, "resize"},
                                                   {RequestReason::drain, "drain"},
                                                   {RequestReason::preemption, "preemption"},
                                                   {RequestReason::stop, "stop"}}};

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
const char* to_text(Yielding yielding) { return word(yieldings, yielding); }
const char* to_text(RequestReason reason) { return word(request_reasons, reason); }
std::optional<RunState> run_state(std::string_view text) { return value_of(run_states, text); }
std::optional<AttemptState> attempt_state(std::string_view text) { return value_of(attempt_states, text); }
std::optional<WorkerState> worker_state(std::string_view text) { return value_of(worker_states, text); }
std::optional<NodeState> node_state(std::string_view text) { return value_of(node_states, text); }
std::optional<Strategy> strategy(std::string_view text) { return value_of(strategies, text); }
std::optional<AfterWhat> after_what(std::string_view text) { return value_of(after_whats, text); }
std::optional<Yielding> yielding(std::string_view text) { return value_of(yieldings, text); }
std::optional<RequestReason> request_reason(std::string_view text) { return value_of(request_reasons, text); }

// ---- reasons --------------------------------------------------------------------------------------------------------
namespace {

std::string counted(std::uint64_t count, const std::string& what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// Returns the first line, and the place in the user's files that follows it.
std::string first_line(const std::string& text) {
    const std::size_t end = text.find('\n');
    if (end == std::string::npos) return text;
    constexpr std::string_view place = "\n  at ";
    if (text.compare(end, place.size(), place) != 0) return text.substr(0, end);
    return text.substr(0, end) + text.substr(end + 2, text.find('\n', end + 1) - end - 2);
}

std::string nodes_text(const std::vector<NodeReason>& nodes) {
    std::string text;
    for (const NodeReason& node : nodes)
        text += (text.empty() ? ": " : "; ") + (node.node.value.empty() ? "" : node.node.value + ": ") + node.text;
    return text;
}

// Returns `text`, a sentence of an earlier version, with only the first line of the job's words in brackets.
std::string sentence_in_brief(const std::string& text) {
    if (text.find('\n') == std::string::npos) return text;
    const std::string line = first_line(text);
    if (const auto tail = text.rfind(") (failure "); tail != std::string::npos) return line + text.substr(tail);
    return line + (text.ends_with(')') && line.find('(') != std::string::npos ? ")" : "");
}

struct Sentence {
    std::string of(const std::vector<Reason>& cause) const { return cause.empty() ? "" : to_text(cause.front()); }
    std::string joined(const char* before, const std::vector<Reason>& cause) const {
        return cause.empty() ? "" : before + of(cause);
    }

    std::string operator()(const reasons::None&) const { return ""; }
    std::string operator()(const reasons::Text& why) const { return why.text; }
    std::string operator()(const reasons::NoRoom&) const { return "waits for room"; }
    std::string operator()(const reasons::NeverFits& why) const {
        return "NO PRESENT NODES COULD EVER HOLD IT, it waits for nodes to join" + nodes_text(why.nodes);
    }
    std::string operator()(const reasons::QuotaFull& why) const {
        const std::string reserved =
            why.reserved.ticks > 0 ? ", " + to_text(why.reserved) + " are kept for runs that start before" : "";
        return "queue \"" + why.queue + "\" holds " + to_text(why.held) + " of its quota of " + to_text(why.quota) +
               " " + why.resource + reserved + ", this needs " + to_text(why.requested) + " more" +
               (why.requested > why.quota ? "; it can never start unless the quota is raised" : "");
    }
    std::string operator()(const reasons::QuotaReclaimed& why) const {
        return "may borrow no " + why.resource + " now: another queue below \"" + why.queue + "\" claims its own back";
    }
    std::string operator()(const reasons::QueueUserLimit& why) const {
        const std::string never = why.requested > why.limit ? "; it can never start unless the limit is raised" : "";
        if (why.resource != gpu_key)
            return "queue \"" + why.queue + "\" allows one user " + to_text(why.limit) +
                   " live runs at once, and its user has them";
        return "queue \"" + why.queue + "\" allows one user " + to_text(why.limit) +
               " GPU at once, and its user holds too many for " + to_text(why.requested) + " more" + never;
    }
    std::string operator()(const reasons::BudgetUsed& why) const {
        const std::string budget = to_text(why.gpu_hours) + " GPU hours within " + span_text(why.window);
        if (why.gpu_hours.ticks == 0)
            return "queue \"" + why.queue + "\" gives " + (why.of_user ? "its user" : "its runs") + " no GPU hours";
        return why.of_user ? "queue \"" + why.queue + "\" gives its user " + budget + ", and the user has used them"
                           : "queue \"" + why.queue + "\" has a budget of " + budget + ", and its runs have used them";
    }
    std::string operator()(const reasons::AfterRuns& why) const {
        std::string text;
        for (const reasons::Predecessor& run : why.runs)
            text += (text.empty() ? "waits for " : " and for ") + run.name +
                    (run.until == AfterWhat::succeeded ? " to succeed" : " to end");
        return text;
    }
    std::string operator()(const reasons::ArrayLimit& why) const {
        return "array " + why.array + " runs at most " + std::to_string(why.parallel) + " at a time";
    }
    std::string operator()(const reasons::PredecessorEnded& why) const {
        return "it was to start after " + why.name + ", which is " + to_text(why.state);
    }
    std::string operator()(const reasons::StoppedBy& why) const {
        return "stopped by " + why.user + joined(", its attempt had ended: ", why.cause);
    }
    std::string operator()(const reasons::QueueTime&) const { return "it was not placed within limits.queue_time"; }
    std::string operator()(const reasons::WallTime&) const { return "limits.wall_time was reached"; }
    std::string operator()(const reasons::FailuresSpent& why) const {
        return of(why.cause) + " (failure " + std::to_string(why.failures) + ", failure.max_failures is " +
               std::to_string(why.max_failures) + ")";
    }
    std::string operator()(const reasons::UserLimit& why) const {
        return of(why.cause) + " (no further attempt: " + why.limit + ")";
    }
    std::string operator()(const reasons::FailFast& why) const { return of(why.cause) + " (failure.fail_fast)"; }
    std::string operator()(const reasons::StartsFailed& why) const {
        return of(why.cause) + " (" + std::to_string(why.attempts) + " attempts in a row could not be " +
               (why.prepared ? "begun)" : "prepared)");
    }
    std::string operator()(const reasons::NodesLost& why) const {
        return of(why.cause) + " (" + std::to_string(why.attempts) +
               " attempts in a row lost a node, without a checkpoint between them)";
    }
    std::string operator()(const reasons::RankFailed& why) const {
        const ExitCause& exit = why.exit;
        std::string text = "ended";
        if (exit.never_started)
            text = "could not start";
        else if (exit.signal)
            text = "killed by signal " + std::to_string(*exit.signal) + signal_meaning(*exit.signal);
        else if (exit.exit_code)
            text = "exited with code " + std::to_string(*exit.exit_code);
        std::string evidence = exit.out_of_memory ? "out of memory" : "";
        if (!exit.detail.empty()) evidence += (evidence.empty() ? "" : ": ") + exit.detail;
        return "rank " + std::to_string(why.rank.value) + " on " + why.node.value + ": " + text +
               (evidence.empty() ? "" : " (" + evidence + ")");
    }
    std::string operator()(const reasons::RanksSucceeded&) const { return "every rank ended with 0"; }
    std::string operator()(const reasons::NotPrepared& why) const {
        return why.node.value + " could not prepare: " + why.why;
    }
    std::string operator()(const reasons::EndUnseen& why) const {
        std::string text = why.node.value + " has no process of it any more; the end of rank(s)";
        for (const Rank rank : why.ranks) text += " " + std::to_string(rank.value);
        return text + " was not seen";
    }
    std::string operator()(const reasons::NodeLost& why) const {
        return "node " + why.node.value + " was lost: " + why.why + joined("; then ", why.cause);
    }
    std::string operator()(const reasons::NodeLeft& why) const {
        return "node " + why.node.value + " left the cluster" + joined("; then ", why.cause);
    }
    std::string operator()(const reasons::NodeSmaller& why) const {
        return why.node.value + " came back with fewer resources";
    }
    std::string operator()(const reasons::StopMetric& why) const {
        std::string value = std::to_string(why.value);
        if (value.find('.') != std::string::npos) value.erase(value.find_last_not_of('0') + 1);
        if (value.ends_with('.')) value.pop_back();
        return "stop: " + why.key + " reached " + value;
    }
    std::string operator()(const reasons::GivenUp&) const { return "the head has given this attempt up"; }
    std::string operator()(const reasons::NodeForgot&) const { return "the node came back without it"; }
    std::string operator()(const reasons::RequestedBy& why) const { return "asked by " + why.user; }
    std::string operator()(const reasons::PreemptedBy& why) const {
        return "gives way to " + why.run + " (priority " + std::to_string(why.priority) + ", queue \"" + why.queue +
               "\")";
    }
    std::string operator()(const reasons::YieldedTo& why) const {
        return "it yielded: ended for run " + why.run + " of " + why.user + " (queue \"" + why.queue + "\")";
    }
    std::string operator()(const reasons::OwnerEnded& why) const {
        return "run " + why.owner + ", to which it belongs, has ended, is ending or waits again";
    }
    std::string operator()(const reasons::NodeDrains& why) const {
        return "node " + why.node.value + " drains" + joined(", ", why.cause);
    }
    std::string operator()(const reasons::ResizeRequested& why) const {
        return (why.user.empty() ? "" : why.user + " ") + "asked for " + counted(why.workers, "worker") +
               " instead of " + std::to_string(why.instead_of);
    }
    std::string operator()(const reasons::RoomToGrow& why) const {
        return "there is room for " + counted(why.workers, "worker") + " instead of " + std::to_string(why.instead_of);
    }
    std::string operator()(const reasons::DrainedBy& why) const {
        if (why.by_itself || why.by_disk) return why.text;
        return (why.quarantined ? "quarantined by " : "drained by ") + why.user +
               (why.text.empty() ? "" : ": " + why.text);
    }
    std::string operator()(const reasons::Silent& why) const { return why.why; }
    std::string operator()(const reasons::Quarantined& why) const {
        std::string text = std::to_string(why.attempts) + " attempts of " + std::to_string(why.runs) +
                           " runs failed here first within " + std::to_string(why.window.ms / 60'000) +
                           " min, none succeeded in between:";
        for (const reasons::Evidence& evidence : why.evidence)
            text += (&evidence == &why.evidence.front() ? " " : "; ") + evidence.run + " attempt " +
                    std::to_string(evidence.attempt) + " (" + of(evidence.cause) +
                    (evidence.went_on ? "; the run went on without this node" : "") + ")";
        return text;
    }
};

// Returns the reason with `change` applied to it and to the reasons that it contains.
template <class Change>
Reason changed(const Reason& reason, const Change& change) {
    Reason::Value value = reason.value();
    std::visit(change, value);
    return Reason::of(std::move(value));
}
struct Shorten {
    void operator()(reasons::RankFailed& why) const { why.exit.detail = first_line(why.exit.detail); }
    void operator()(reasons::NotPrepared& why) const { why.why = first_line(why.why); }
    void operator()(reasons::Text& why) const { why.text = sentence_in_brief(why.text); }
    void operator()(reasons::Silent& why) const { why.why = first_line(why.why); }
    void operator()(reasons::DrainedBy& why) const { why.text = first_line(why.text); }
    void operator()(reasons::NodeLost& why) const {
        why.why = first_line(why.why);
        for (Reason& cause : why.cause) cause = changed(cause, *this);
    }
    template <class Other>
    void operator()(Other& why) const {
        if constexpr (requires { why.cause; })
            for (Reason& cause : why.cause) cause = changed(cause, *this);
    }
};
struct Cut {
    std::size_t most;
    void operator()(reasons::RankFailed& why) const { why.exit.detail = cut_text(std::move(why.exit.detail), most); }
    void operator()(reasons::NotPrepared& why) const { why.why = cut_text(std::move(why.why), most); }
    void operator()(reasons::Text& why) const { why.text = cut_text(std::move(why.text), most); }
    void operator()(reasons::Silent& why) const { why.why = cut_text(std::move(why.why), most); }
    void operator()(reasons::DrainedBy& why) const { why.text = cut_text(std::move(why.text), most); }
    void operator()(reasons::NodeLost& why) const {
        why.why = cut_text(std::move(why.why), most);
        for (Reason& cause : why.cause) cause = changed(cause, *this);
    }
    void operator()(reasons::Quarantined& why) const {
        for (reasons::Evidence& evidence : why.evidence)
            for (Reason& cause : evidence.cause) cause = changed(cause, *this);
    }
    template <class Other>
    void operator()(Other& why) const {
        if constexpr (requires { why.cause; })
            for (Reason& cause : why.cause) cause = changed(cause, *this);
    }
};
struct Hide {
    void operator()(reasons::RankFailed& why) const {
        if (!why.exit.detail.empty()) why.exit.detail = "hidden";
    }
    void operator()(reasons::NotPrepared& why) const { why.why = without_output(why.why); }
    void operator()(reasons::Text& why) const { why.text = without_output(why.text); }
    void operator()(reasons::Quarantined& why) const {
        for (reasons::Evidence& evidence : why.evidence)
            for (Reason& cause : evidence.cause) cause = changed(cause, *this);
    }
    template <class Other>
    void operator()(Other& why) const {
        if constexpr (requires { why.cause; })
            for (Reason& cause : why.cause) cause = changed(cause, *this);
    }
};

}  // namespace

const char* kind_of(const Reason& reason) {
    return std::visit([]<class T>(const T&) { return T::kind; }, reason.value());
}

std::string to_text(const Reason& reason) { return std::visit(Sentence{}, reason.value()); }

std::string to_text(const Reason& reason, JobWords words) {
    return to_text(words == JobWords::shown ? reason : without_job_words(reason));
}

std::string without_output(const std::string& text) {
    const std::size_t end = std::min(text.find(" ("), text.find('\n'));
    return end == std::string::npos ? text : text.substr(0, end) + " (hidden)";
}

std::string why_out_of_use(const Node& node, JobWords words) {
    if (is_awaited(node)) return "not registered since the head started";
    const bool evidence = node.state == NodeState::quarantined || node.back_as == NodeState::quarantined;
    const bool of_a_person = node.state_reason.is<reasons::Text>() && !evidence;
    return to_text(node.state_reason, of_a_person ? JobWords::shown : words);
}

std::string to_text(const ExitCause& exit) {
    std::string text;
    if (exit.never_started)
        text = "could not be started";
    else if (exit.signal)
        text = "killed by signal " + std::to_string(*exit.signal) + signal_meaning(*exit.signal);
    else if (exit.exit_code)
        text = "exit code " + std::to_string(*exit.exit_code);
    if (exit.out_of_memory) text += " (out of memory)";
    if (exit.stopped_by_us) text += ", stopped with its attempt";
    if (!exit.detail.empty()) text += (text.empty() ? "" : ": ") + exit.detail;
    return text;
}

Reason in_brief(const Reason& reason) { return changed(reason, Shorten{}); }

Reason cut_to(const Reason& reason, std::size_t most) { return reason.none() ? reason : changed(reason, Cut{most}); }

Reason without_job_words(const Reason& reason) { return changed(reason, Hide{}); }

// ---- events ---------------------------------------------------------------------------------------------------------
namespace notes {
namespace {

std::string attempt_text(const std::string& run, std::uint32_t number) {
    return run + " attempt " + std::to_string(number);
}

std::string node_text(const NodeId& node) { return "node " + node.value; }

// Returns a cause as a part of an event's line, cut to its limit.
std::string in_line(const Reason& cause, JobWords words) { return to_text(cut_to(cause, limits::note_bytes), words); }

std::string behind(const char* before, const std::string& text) { return text.empty() ? "" : before + text; }

// Returns a text that says what follows the requested checkpoint. Used for a run without an attempt.
std::string what_follows(const CheckpointRequest& request) {
    switch (request.reason) {
        case RequestReason::by_operator:
            return "goes on";
        case RequestReason::resize:
            return "resizes to " + std::to_string(request.workers) + " workers";
        case RequestReason::drain:
        case RequestReason::preemption:
            return "is moved";
        case RequestReason::stop:
            return "stops";
    }
    return "";
}

}  // namespace

std::string head_started() { return "the head started"; }
std::string queues_configured(const std::string& by, const std::string& names) {
    return "queues were configured" + behind(" from ", by) + ": " + names;
}

std::string submitted(const Run& run) { return run.name + " was submitted by " + run.user; }
std::string array_submitted(const std::string& array, std::size_t runs, const std::string& user) {
    return "array " + array + " of " + std::to_string(runs) + " runs was submitted by " + user;
}
std::string stopping(const Run& run, JobWords words) {
    return run.name + " is STOPPING: " + in_line(run.reason, words);
}
std::string ended(const Run& run, JobWords words) {
    return run.name + " is " + to_text(run.state) + behind(": ", in_line(run.reason, words));
}
std::string removed(const Run& run) { return run.name + " was removed"; }
std::string stop_metric(const std::string& run, const Reason& why) { return run + ": " + to_text(why); }
std::string shrinks(const Run& run) { return run.name + " goes on with the workers that fit"; }
std::string backoff(const Run& run, Duration wait) {
    if (wait.ms == 0) return run.name + " goes on at once: its last attempt made progress";
    return run.name + " waits " + std::to_string(wait.ms) + " ms before its next attempt";
}
std::string size_requested(const std::string& run, std::uint32_t workers, const std::string& by) {
    return run + " is to have " + counted(workers, "worker") + ", asked by " + by;
}
std::string size_unchanged(const std::string& run, std::size_t workers, std::uint32_t wanted, const Reason& quota) {
    return run + " keeps " + counted(workers, "worker") + ": the room for " + std::to_string(wanted) + " has gone" +
           behind(", ", to_text(quota));
}

std::string placed(const std::string& run, const Attempt& attempt) {
    return attempt_text(run, attempt.id.number) + " placed on " + std::to_string(attempt.nodes_waiting.size()) +
           " node(s), rank 0 on " + attempt.nodes_waiting.front().value;
}
std::string prepared(const std::string& run, const Attempt& attempt) {
    return attempt_text(run, attempt.id.number) + " is prepared, starts from " +
           (attempt.from.empty() ? "nothing" : attempt.from);
}
std::string running(const std::string& run, const Attempt& attempt) {
    return attempt_text(run, attempt.id.number) + " is RUNNING";
}
std::string failed(const std::string& run, AttemptId id, const Reason& cause, JobWords words) {
    return attempt_text(run, id.number) + ": " + in_line(cause, words);
}

std::string checkpoint_requested(const std::string& run, const CheckpointRequest& request) {
    return run + " is asked for a checkpoint, then it " + what_follows(request) + ": " + to_text(request.why);
}
std::string ends_for(const std::string& run, AttemptId id, const CheckpointRequest& request) {
    return attempt_text(run, id.number) + " ends, its run " + what_follows(request) + ": " + to_text(request.why);
}
std::string no_checkpoint_in_time(const std::string& run) {
    return run + " committed no checkpoint until the deadline";
}
std::string until_next_checkpoint(const std::string& run) {
    return run + " has until its next checkpoint: nobody needs its room any more";
}
std::string not_preempted(const std::string& run) { return run + " stays: nobody needs its room any more"; }
std::string not_moved(const std::string& run) { return run + " stays where it is"; }

std::string committed(const Run& run, const std::string& directory) { return run.name + " committed " + directory; }
std::string validated(const CheckpointValidated& event) {
    return event.directory + (event.pending ? " is kept: it waits for its validation, or a trial starts from it"
                                            : " was validated, or no trial starts from it any more");
}
std::string verified(const CheckpointVerified& event) {
    if (event.faults == 0) return event.directory + " was verified: its files are intact";
    return event.directory + " was verified: " + std::to_string(event.faults) +
           (event.faults == 1 ? " file is" : " files are") + " missing or damaged";
}
std::string deleted(const std::string& directory) { return directory + " was deleted"; }
std::string deletes_earlier(const Run& run, const std::string& directories) {
    return run.name + " deletes checkpoints of the earlier runs of its name: " + directories +
           " (num_to_keep: " + std::to_string(run.spec.retention.num_to_keep.value_or(0)) + ")";
}
std::string no_score(const std::string& metric) {
    return "none of its checkpoints has the metric " + metric +
           ", by which they are ranked: none is deleted until one has";
}

std::string priority_changed(const Run& run, std::int32_t before, const std::string& by) {
    return by + " changed the priority of " + run.name + " from " + std::to_string(before) + " to " +
           std::to_string(run.spec.priority);
}

std::string yields_changed(const Run& run, const std::string& by) {
    return by + (yields(run) ? " let " + run.name + " yield" : " keeps " + run.name + " from yielding");
}

std::string node_is(const Node& node) { return node_text(node.id) + " is " + to_text(node.state); }
std::string node_lost(const NodeLost& event) { return node_text(event.node) + " is LOST: " + event.why; }
std::string node_left(const NodeId& node) { return node_text(node) + " left the cluster"; }
std::string draining(const Node& node) { return node_text(node.id) + " is DRAINING, " + to_text(node.state_reason); }
std::string drain_deadline(const NodeId& node) { return "the deadline of " + node_text(node) + " has come"; }
std::string quarantined(const Node& node) {
    return node_text(node.id) + " is QUARANTINED: " + to_text(node.state_reason, JobWords::hidden);
}
std::string in_use_again(const NodeId& node) { return node_text(node) + " takes bundles again"; }

}  // namespace notes
}  // namespace rtrain
