// The commands of a transcript. The answer to an event consists of its note, a refusal, and the effects, one per line.
#include "tests/transcripts/stage.hpp"

#include <algorithm>
#include <functional>
#include <sstream>

#include "scheduler/explain/explain.hpp"
#include "scheduler/queue/order.hpp"
#include "tests/transcripts/effect_text.hpp"

namespace rtrain::transcripts {
namespace {

Amount amount(const std::string& text) { return parse_amount(text).value(); }

NodeId nth_word(const Command& command, std::size_t n) {
    return {n < command.words.size() ? command.words[n] : std::string{}};
}

// Reads the request of submit and plan: workers=4 gpu=1 placement=SPREAD topology=rack label.zone=eu on=n1 exclude=n2;
// "also=cpu:4" is one bundle more, unlike the others; placed=0:n1,1:n1 lists bundles that stay on their nodes.
GangRequest gang_of(const Command& command) {
    GangRequest gang;
    Bundle bundle;
    bundle.demand["CPU"] = amount(command.option("cpu", "1"));
    if (command.options.contains("gpu")) bundle.demand["GPU"] = amount(command.option("gpu", "0"));
    for (const auto& [key, value] : command.options)
        if (key.starts_with("label.")) bundle.selector.push_back(parse_label_condition(key.substr(6), value).value());
    gang.bundles.assign(static_cast<std::size_t>(command.number("workers", 1)), bundle);
    if (const std::string also = command.option("also", ""); !also.empty()) {
        const std::size_t colon = also.find(':');
        const std::string name = also.substr(0, colon) == "gpu" ? "GPU" : "CPU";
        gang.bundles.push_back({.demand = {{name, amount(also.substr(colon + 1))}}, .selector = {}});
    }
    if (command.options.contains("on")) gang.nodes_only = {{command.option("on", "")}};
    if (command.options.contains("exclude")) gang.nodes_excluded = {{command.option("exclude", "")}};
    if (command.options.contains("topology")) gang.topology_label = command.option("topology", "");
    gang.strategy = strategy(command.option("placement", "PACK")).value();
    std::istringstream in(command.option("placed", ""));
    for (std::string one; std::getline(in, one, ',');)
        gang.placed[static_cast<std::uint32_t>(std::stoul(one))] = {one.substr(one.find(':') + 1)};
    return gang;
}

}  // namespace

std::string Command::option(const std::string& key, const std::string& otherwise) const {
    const auto entry = options.find(key);
    return entry == options.end() ? otherwise : entry->second;
}

std::int64_t Command::number(const std::string& key, std::int64_t otherwise) const {
    return std::stoll(option(key, std::to_string(otherwise)));
}

Command parse_command(const std::string& line) {
    Command command;
    std::istringstream in(line);
    in >> command.verb;
    for (std::string word; in >> word;) {
        const std::size_t equals = word.find('=');
        if (equals == std::string::npos)
            command.words.push_back(word);
        else
            command.options[word.substr(0, equals)] = word.substr(equals + 1);
    }
    return command;
}

const Run* Stage::run(const std::string& name) const {
    const Run* last = nullptr;
    for (const auto& [id, run] : cluster_.runs)
        if (run.name == name) last = &run;
    return last;
}

AttemptId Stage::attempt(const std::string& name) const {
    const Run* named = run(name);
    return named == nullptr ? AttemptId{} : AttemptId{.run = named->id, .number = named->attempts};
}

std::string Stage::tell(const Event& event) {
    const Decision decision = decide(cluster_, now_, event);
    std::string text;
    if (decision.refused) text += "refused: " + decision.refused->message + "\n";
    if (!decision.note.empty()) text += decision.note + "\n";
    for (const Effect& effect : decision.act) text += "  " + text_of(cluster_, effect) + "\n";
    for (const std::string& broken : invariants(cluster_)) text += "INVARIANT BROKEN: " + broken + "\n";
    return text;
}

std::string Stage::pass(std::int64_t ms) {
    std::string text;
    const Time end{now_.ms + ms};
    for (auto wake = next_wake(cluster_); wake && *wake <= end; wake = next_wake(cluster_)) {
        now_ = std::max(now_, *wake);
        text += tell(TimePassed{});
    }
    now_ = end;
    return text;
}

// Returns placement's answer for the present nodes, as `rtrain plan` does.
std::string Stage::planned(const Command& command) const {
    const PlacementAnswer answer = explain_placement(node_views(cluster_), gang_of(command));
    std::string text = to_text(answer.verdict);
    for (std::size_t i = 0; i < answer.seats.size(); ++i) {
        text += "\n  bundle " + std::to_string(i) + " on " + answer.seats[i].node.value;
        for (const GpuShare& share : answer.seats[i].gpus)
            text += ", " + to_text(share.amount) + " of GPU " + std::to_string(share.device);
    }
    for (const NodeReason& reason : answer.reasons)
        if (answer.seats.empty()) text += "\n  " + reason.node.value + ": " + reason.text;
    if (!answer.nearest_change.empty()) text += "\n  " + answer.nearest_change;
    return text + "\n";
}

static RunYieldsChanged switched(RunId run, const std::string& yields) {
    return {.run = run, .by = "ana", .yielding = yields == "true" ? Yielding::active : Yielding::paused};
}

std::string Stage::submit(const Command& command) {
    RunSubmitted event;
    event.name = command.words.at(0);
    event.user = command.option("user", "ana");
    event.spec.gang = gang_of(command);
    if (command.options.contains("min"))
        event.spec.elastic = Elastic{.workers_min = static_cast<std::uint32_t>(command.number("min", 1))};
    event.spec.checkpoint_on_drain = command.option("on_drain", "true") == "true";
    if (command.options.contains("after"))
        event.spec.after.push_back({.run = attempt(command.option("after", "")).run,
                                    .what = after_what(command.option("until", "succeeded")).value()});
    for (std::int64_t index = 1; index <= command.number("array", 0); ++index)
        event.array.push_back(static_cast<std::uint32_t>(index));
    event.array_parallel = static_cast<std::uint32_t>(command.number("parallel", 0));
    event.spec.priority = static_cast<std::int32_t>(command.number("priority", 50));
    event.spec.failure.max_failures = static_cast<std::int32_t>(command.number("max_failures", 0));
    event.spec.wait_for_nodes = command.option("wait_for_nodes", "true") == "true";
    if (command.options.contains("keep"))
        event.spec.retention.num_to_keep = static_cast<std::uint32_t>(command.number("keep", 1));
    event.spec.retention.score_attribute = command.option("score", "");
    event.spec.retention.latest_until_success = command.option("keep_latest", "always") == "until_success";
    event.spec.queue = command.option("queue", default_queue);
    if (command.options.contains("yields"))  // the owner is a run or a session
        event.yielding = command.option("yields", "") == "true" ? Yielding::active : Yielding::paused;
    if (command.options.contains("owner"))
        event.parent = attempt(command.option("owner", "")).run;
    else if (command.options.contains("session"))
        event.program = "session-" + command.option("session", "");
    const auto limit = [&](const char* key) {
        return command.options.contains(key) ? std::optional(Duration{command.number(key, 0) * 1000}) : std::nullopt;
    };
    event.spec.wall_time_limit = limit("wall_s");
    event.spec.queue_time_limit = limit("queue_s");
    return tell(event);
}

// "queues a=share:2,gpu:8,parent:all,preempt:yes b= half_life_s=60": the whole configuration.
std::string Stage::configured(const Command& command) {
    QueuesConfigured event;
    event.queues.rules.try_emplace(default_queue);
    event.queues.half_life = {command.number("half_life_s", 86'400) * 1000};
    event.queues.preemption_grace = {command.number("grace_s", 60) * 1000};
    for (const auto& [name, fields] : command.options) {
        if (name.ends_with("_s")) continue;
        QueueRules& rules = event.queues.rules[name];
        std::istringstream in(fields);
        for (std::string field; std::getline(in, field, ',');) {
            const std::size_t colon = field.find(':');
            const std::string key = field.substr(0, colon), value = field.substr(colon + 1);
            if (key == "share") rules.share = std::stoll(value);
            if (key == "parent") rules.parent = value;
            if (key == "gpu") rules.quota["GPU"] = amount(value);
            if (key == "cpu") rules.quota["CPU"] = amount(value);
            if (key == "borrow") rules.borrow = value == "yes";
            if (key == "preempt") rules.preempt = value == "yes";
            if (key == "user_runs") rules.user_runs = std::stoll(value);
            if (key == "user_gpus") rules.user_gpus = amount(value);
            if (key == "gpu_hours") rules.gpu_hours = amount(value);
            if (key == "user_gpu_hours") rules.user_gpu_hours = amount(value);
            if (key == "budget_preempts") rules.budget_preempts = value == "yes";
        }
    }
    return tell(event);
}

std::string Stage::registered(const Command& command) {
    NodeRegistered event;
    event.node = nth_word(command, 0);
    event.address = "10.0.0.1";
    event.total["CPU"] = amount(command.option("cpu", "4"));
    event.gpus = static_cast<std::uint32_t>(command.number("gpu", 0));
    for (const auto& [key, value] : command.options)
        if (key.starts_with("label.")) event.labels[key.substr(6)] = value;
    for (std::size_t i = 1; i < command.words.size(); ++i) event.held.push_back(attempt(command.words[i]));
    return tell(event);
}

std::string Stage::prepared(const Command& command) {
    const AttemptId asked = attempt(command.words.at(0));
    const Attempt attempt_now = cluster_.attempts.at(asked);
    std::string text;
    for (const NodeId& node : attempt_now.nodes_waiting) {
        NodePrepared event{.attempt = asked, .incarnation = attempt_now.incarnation, .node = node};
        if (node == attempt_now.workers.front().seat.node) {
            event.claimed_number = static_cast<std::uint32_t>(command.number("claim", asked.number));
            event.from = command.option("from", "");
            event.master_address = "10.0.0.1";
            event.master_port = 20'000;
        }
        text += tell(event);
    }
    return text;
}

std::string Stage::exited(const Command& command) {
    WorkerExited event;
    event.attempt = attempt(command.words.at(0));
    event.rank = {static_cast<std::uint32_t>(std::stoul(command.words.at(1)))};
    event.exit_wall_us = command.number("at_us", 0);
    if (command.options.contains("signal"))
        event.cause.signal = static_cast<std::int32_t>(command.number("signal", 9));
    else
        event.cause.exit_code = static_cast<std::int32_t>(command.number("code", 0));
    event.cause.out_of_memory = command.option("oom", "false") == "true";
    event.cause.stopped_by_us = command.option("by_agent", "false") == "true";
    return tell(event);
}

std::string Stage::stopped(const Command& command) {
    RunStopAsked event{.run = attempt(command.words.at(0)).run, .by = "ana"};
    event.checkpoint = command.option("checkpoint", "no") == "yes";
    if (command.options.contains("deadline")) event.deadline = Duration{command.number("deadline", 0)};
    return tell(event);
}

std::string Stage::resized(const Command& command) {
    RunResizeAsked event{.run = attempt(command.words.at(0)).run, .by = "ana"};
    event.workers = static_cast<std::uint32_t>(std::stoul(command.words.at(1)));
    if (command.options.contains("deadline")) event.deadline = Duration{command.number("deadline", 0)};
    return tell(event);
}

std::string Stage::node_table() const {
    std::string text;
    for (const auto& [id, node] : cluster_.nodes)
        text += id.value + " " + to_text(node.state) +
                (node.state_reason.none() ? "" : ": " + to_text(node.state_reason)) + "\n";
    return text;
}

std::string Stage::table() const {
    std::string text;
    for (const auto& [id, run] : cluster_.runs) {
        text += run.name + " " + to_text(run.state) + ", attempts " + std::to_string(run.attempts) + ", failures " +
                std::to_string(run.failures) + (run.reason.none() ? "" : ", " + to_text(run.reason)) + "\n";
        const auto entry = cluster_.attempts.find({.run = id, .number = run.attempts});
        if (entry == cluster_.attempts.end() || terminal(entry->second.state)) continue;
        text += "  ranks on";
        for (const Worker& worker : entry->second.workers) text += " " + worker.seat.node.value;
        text += "\n";
    }
    return text;
}

std::string Stage::explained(const std::string& name) const {
    const Explanation why = explain(cluster_, now_, run(name) == nullptr ? RunId{} : run(name)->id, JobWords::shown);
    std::string text = why.headline + "\n";
    for (const Rule& rule : why.rules) text += "  " + rule.text + "\n";
    for (const ReasonGroup& group : why.groups)
        text += "  " + std::to_string(group.nodes) + " " + group.kind + ": " + group.text +
                (group.field.empty() ? "" : " [" + group.field + "]") + "\n";
    if (why.placement) {
        for (const NodeReason& reason : why.placement->reasons)
            text += "  " + reason.node.value + ": " + reason.text + "\n";
        if (!why.placement->nearest_change.empty()) text += "  " + why.placement->nearest_change + "\n";
    }
    for (const std::string& line : why.holders) text += "  " + line + "\n";
    return text;
}

std::string Stage::perform(const Command& command) {
    using Verb = std::function<std::string(const Command&)>;
    const auto first = [](const Command& c) { return c.words.empty() ? std::string{} : c.words.front(); };
    const std::map<std::string, Verb> verbs{
        {"node", [&](const Command& c) { return registered(c); }},
        {"lost", [&](const Command& c) { return tell(NodeLost{.node = nth_word(c, 0), .why = "silent for 10 s"}); }},
        {"left", [&](const Command& c) { return tell(NodeLeft{nth_word(c, 0)}); }},
        {"drain",
         [&](const Command& c) {
             NodeDrained event{.node = nth_word(c, 0), .by = "ana", .reason = c.option("why", "")};
             if (c.options.contains("deadline")) event.deadline = Duration{c.number("deadline", 0)};
             return tell(event);
         }},
        {"leaves",  // its agent was told to end
         [&](const Command& c) {
             return tell(NodeDrained{.node = nth_word(c, 0),
                                     .by = nth_word(c, 0).value,
                                     .reason = "its agent ends: it got SIGTERM",
                                     .deadline = Duration{c.number("deadline", 0)},
                                     .by_itself = true});
         }},
        {"undrain", [&](const Command& c) { return tell(NodeUndrained{nth_word(c, 0)}); }},
        {"submit", [&](const Command& c) { return submit(c); }},
        {"yields", [&](const Command& c) { return tell(switched(attempt(first(c)).run, c.words.at(1))); }},
        {"plan", [&](const Command& c) { return planned(c); }},
        {"stop", [&](const Command& c) { return stopped(c); }},
        {"resize", [&](const Command& c) { return resized(c); }},
        {"ask", [&](const Command& c) { return tell(RunCheckpointAsked{.run = attempt(first(c)).run, .by = "ana"}); }},
        {"nodes", [&](const Command&) { return node_table(); }},
        {"prepared", [&](const Command& c) { return prepared(c); }},
        {"started",
         [&](const Command& c) {
             std::string text;
             for (std::uint32_t rank = 0; rank < cluster_.attempts.at(attempt(first(c))).workers.size(); ++rank)
                 text += tell(WorkerStarted{.attempt = attempt(first(c)), .rank = {rank}, .pid = 100 + rank});
             return text;
         }},
        {"exit", [&](const Command& c) { return exited(c); }},
        {"emptied",
         [&](const Command& c) {
             std::string text;
             const AttemptId id = attempt(first(c));
             const auto waiting = cluster_.attempts.at(id).nodes_waiting;
             const std::string only = c.option("on", "");
             for (const NodeId& node : waiting)
                 if (only.empty() || node.value == only) text += tell(NodeEmptied{.attempt = id, .node = node});
             return text;
         }},
        {"commit",
         [&](const Command& c) {
             CheckpointCommitted event{.attempt = attempt(first(c)), .directory = c.words.at(1)};
             for (const auto& [key, value] : c.options) event.metrics[key] = std::stod(value);
             return tell(event);
         }},
        {"head-starts", [&](const Command&) { return tell(HeadStarted{}); }},
        {"queues", [&](const Command& c) { return configured(c); }},
        {"order",
         [&](const Command&) {
             std::string text;
             for (const RunId id : queue_order(cluster_)) text += cluster_.runs.at(id).name + "\n";
             return text;
         }},
        {"after", [&](const Command& c) { return pass(std::stoll(first(c))); }},
        {"runs", [&](const Command&) { return table(); }},
        {"explain", [&](const Command& c) { return explained(first(c)); }},
    };
    const auto verb = verbs.find(command.verb);
    return verb == verbs.end() ? "no such command: " + command.verb + "\n" : verb->second(command);
}

}  // namespace rtrain::transcripts
