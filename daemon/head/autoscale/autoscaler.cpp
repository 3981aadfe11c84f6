// Runs one command at a time. An order is durable before its command begins.
#include "daemon/head/autoscale/autoscaler.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json_text.hpp"
#include "daemon/head/base/node_name.hpp"
#include "daemon/net/loop/side_thread.hpp"
#include "scheduler/autoscale/demand.hpp"

namespace rtrain::head {
namespace {

using nlohmann::json;

constexpr int not_now_code = 75;           // exit code of a command for "try again later": EX_TEMPFAIL of sysexits.h
constexpr std::size_t shown_most = 300;    // the most bytes of a command's output in the text of an event
constexpr std::size_t demands_most = 100;  // the most shapes in the input of a command

std::string last_line(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    const auto at = text.find_last_of('\n');
    text = text.substr(at == text.npos ? 0 : at + 1);
    return text.size() > shown_most ? text.substr(0, shown_most) + "..." : text;
}

const char* word(CommandResult result) {
    switch (result) {
        case CommandResult::done:
            return "done";
        case CommandResult::failed:
            return "failed";
        case CommandResult::not_now:
            return "not_now";
        case CommandResult::ended:
            return "ended";
    }
    return "failed";
}

// Returns the names in the lines `node=NAME` of a command's output. An incomplete line does not count.
std::set<NodeId> nodes_named(const std::string& output) {
    constexpr std::string_view before = "node=";
    std::set<NodeId> names;
    std::size_t at = 0;
    for (std::size_t end = 0; (end = output.find('\n', at)) != output.npos; at = end + 1) {
        const std::string_view line = std::string_view(output).substr(at, end - at);
        if (!line.starts_with(before)) continue;
        if (const std::string name(line.substr(before.size())); is_node_name(name)) names.insert(NodeId{name});
    }
    return names;
}

CommandResult result_of(const std::string& action, const Result<CommandEnd>& end) {
    if (!end) return CommandResult::failed;
    if (end->timed_out) return CommandResult::ended;
    if (action == "release" && end->code == not_now_code) return CommandResult::not_now;
    return end->code == 0 ? CommandResult::done : CommandResult::failed;
}

}  // namespace

void Autoscaler::start(const std::optional<std::string>& ordered) {
    if (!uses_.options.autoscale) return;
    restore(ordered.value_or(""));
    // Nodes that were present before the start have not just joined.
    for (const auto& [id, node] : uses_.cluster.nodes) state_.present.insert(id);
    look_who_joined();
    later();
}

// Loads the saved orders. Orders that an older head has saved contain no names.
void Autoscaler::restore(const std::string& saved) {
    const json kept = parsed_or_null(saved);
    if (!kept.is_object()) return;
    for (const json& row : kept.at("orders")) {
        Ordered order{.nodes = row.at("nodes"), .until = from_wall(row.at("until_wall_ms").get<std::int64_t>())};
        for (const json& name : row.value("names", json::array())) order.names.insert(NodeId{name});
        state_.ordered.push_back(std::move(order));
    }
    for (const json& row : kept.value("unjoined", json::array()))
        state_.unjoined[NodeId{row.at("node")}] = {.after = from_wall(row.at("after_wall_ms").get<std::int64_t>()),
                                                   .failures = row.at("failures")};
    state_.failures = kept.at("failures");
    state_.order_after = from_wall(kept.at("order_after_wall_ms").get<std::int64_t>());
    restored(uses_.options.autoscale->policy, state_, uses_.clock.now());
}

Time Autoscaler::from_wall(std::int64_t ms) const { return {uses_.clock.now().ms + ms - wall_ms()}; }

void Autoscaler::stop() {
    give_up_ = true;
    if (command_.joinable()) command_.join();
}

void Autoscaler::later() {
    uses_.loop.after(uses_.options.autoscale_every_ms, [this] { look(); });
}

void Autoscaler::look_who_joined() {
    const std::uint32_t lost = observe(uses_.cluster, uses_.options.autoscale->policy, state_, uses_.clock.now());
    if (lost == 0) return;
    note(std::to_string(lost) + (lost == 1 ? " ordered node" : " ordered nodes") + " did not join in time");
    uses_.metrics.autoscaled("join", "failed");
}

// Computes the number of needed machines on another thread, since that places every waiting run.
void Autoscaler::look() {
    if (running_) {
        drain_if_joined();
        return later();
    }
    const AutoscalePolicy& policy = uses_.options.autoscale->policy;
    const auto before = std::pair(state_.ordered, state_.unjoined);
    look_who_joined();
    if (before != std::pair(state_.ordered, state_.unjoined)) save_orders([] {});
    AutoscaleQuestion question = autoscale_question(uses_.cluster, policy, state_);
    using Answer = std::optional<NodesNeeded>;
    uses_.loop.offload([question = std::move(question)] { return Answer(nodes_needed(question)); },
                       // without an answer nothing is changed until the next check
                       [](const Error&) { return Answer(); },
                       [this](const Answer& needed) {
                           if (needed) act(*needed);
                           later();
                       });
}

void Autoscaler::act(const NodesNeeded& needed) {
    note_hopeless(state_, needed, uses_.clock.now());
    const AutoscaleStep step =
        autoscale_step(uses_.cluster, uses_.options.autoscale->policy, state_, needed, uses_.clock.now());
    for (const NodeId& node : step.undrain) uses_.events.take(NodeUndrained{node});
    if (step.order > 0) return order(step.order);
    if (step.release) return release(*step.release);
    if (step.drain) drain(*step.drain);
}

void Autoscaler::drain(const NodeId& node) {
    uses_.events.take(NodeDrained{.node = node, .by = autoscale_user, .reason = "idle: its machine is given back"});
}

// Drains a machine that joins while it is being released, so that no run is placed on it. A machine that is in use
// again before the release command begins is kept.
void Autoscaler::drain_if_joined() {
    if (!releasing_ || !begun_) return;
    const auto node = uses_.cluster.nodes.find(*releasing_);
    if (node != uses_.cluster.nodes.end() && node->second.state == NodeState::ready) drain(*releasing_);
}

std::string Autoscaler::demand() const {
    json shapes = json::array();
    for (const Demand& shape : waiting_demand(uses_.cluster)) {
        if (shapes.size() == demands_most) break;
        json resources = json::object();
        for (const auto& [name, amount] : shape.demand) resources[name] = to_text(amount);
        shapes.push_back({{"resources", resources}, {"workers", shape.bundles}, {"runs", shape.runs}});
    }
    return json_text(json{{"demand", shapes}}) + "\n";
}

// Returns the names of the joined nodes, and how many may still join. A set of pods may be larger than both together,
// if some pods never joined.
std::string Autoscaler::joined() const {
    json names = json::array();
    for (const NodeId& node : state_.present) names.push_back(node.value);
    return json_text(json{{"nodes", names}, {"ordered", count_ordered(state_)}}) + "\n";
}

std::string Autoscaler::most() const {
    return "RTRAIN_AUTOSCALE_MAX=" + std::to_string(uses_.options.autoscale->policy.max);
}

void Autoscaler::order(std::uint32_t nodes) {
    const spec::AutoscaleRules& rules = *uses_.options.autoscale;
    order_begins(rules.policy, state_, nodes, uses_.clock.now());
    const std::string count = std::to_string(nodes);
    CommandWish wish{.words = rules.provision,
                     .environment = {"RTRAIN_AUTOSCALE=provision", "RTRAIN_AUTOSCALE_NODES=" + count, most()},
                     .input = demand(),
                     .timeout_ms = rules.policy.timeout.ms};
    wish.words.push_back(count);
    note("orders " + count + (nodes == 1 ? " node" : " nodes") + " for runs that wait");
    const auto then = [this](CommandResult result, const std::string& output) {
        order_ended(uses_.options.autoscale->policy, state_, result, nodes_named(output), uses_.clock.now());
        save_orders([] {});
    };
    run({.wish = std::move(wish), .action = "provision", .still = {}, .then = then});
}

void Autoscaler::release(const NodeId& node) {
    const spec::AutoscaleRules& rules = *uses_.options.autoscale;
    CommandWish wish{.words = rules.release,
                     .environment = {"RTRAIN_AUTOSCALE=release", "RTRAIN_AUTOSCALE_NODE=" + node.value, most()},
                     .input = joined(),
                     .timeout_ms = rules.policy.timeout.ms};
    wish.words.push_back(node.value);
    releasing_ = node;  // from now on, post_undrain refuses to undrain this node
    const auto still = [this, node] {
        if (may_release(uses_.cluster, state_, node)) {
            const bool joined = uses_.cluster.nodes.contains(node);
            note("gives back the machine of node " + node.value + (joined ? "" : ", which never joined"), node.value);
            return true;
        }
        releasing_.reset();
        return false;
    };
    const auto then = [this, node](CommandResult result, const std::string&) { release_over(node, result); };
    run({.wish = std::move(wish), .action = "release", .still = still, .then = then});
}

void Autoscaler::release_over(const NodeId& node, CommandResult result) {
    releasing_.reset();
    const bool unjoined = state_.unjoined.contains(node), done = result == CommandResult::done;
    release_ended(uses_.options.autoscale->policy, state_, node, result, uses_.clock.now());
    if (unjoined && !done && !state_.unjoined.contains(node))
        note("the machine of node " + node.value +
                 " never joined and may be there still: release failed for it too often, and is not tried again",
             node.value);
    if (unjoined) save_orders([] {});  // also makes the note above durable
    const auto entry = uses_.cluster.nodes.find(node);
    if (entry == uses_.cluster.nodes.end()) return;
    if (done) return uses_.leave(node.value);
    if (drained_by_autoscaler(entry->second))
        // if the drain is no longer the autoscaler's, a person has drained the node meanwhile
        uses_.events.take(NodeUndrained{node});
}

// Runs a command. The orders are saved first, so that a head that ends during the command still has them.
void Autoscaler::run(Command command) {
    running_ = true;
    save_orders([this, command = std::move(command)]() mutable {
        if (give_up_) return;  // the head is ending
        if (command.still && !command.still()) {
            running_ = false;
            return;
        }
        begun_ = true;
        if (command_.joinable()) command_.join();  // the thread of the earlier command has ended
        command_ = net::side_thread(net::ThreadPriority::normal, [this, command = std::move(command)] {
            Result<CommandEnd> end = run_command(command.wish, give_up_);
            uses_.loop.post([this, command, end = std::move(end)] { ended(command, end); });
        });
    });
}

void Autoscaler::ended(const Command& command, const Result<CommandEnd>& end) {
    running_ = begun_ = false;
    const CommandResult result = result_of(command.action, end);
    uses_.metrics.autoscaled(command.action, word(result));
    if (result == CommandResult::failed || result == CommandResult::ended) {
        const std::string why = !end             ? end.error().message
                                : end->timed_out ? "it took longer than its timeout"
                                                 : "exit code " + std::to_string(end->code);
        const std::string words = end ? last_line(end->output) : "";
        note("the command " + command.action + " failed: " + why + (words.empty() ? "" : " [" + words + "]"));
    }
    command.then(result, end ? end->output : "");
}

void Autoscaler::save_orders(std::function<void()> then) {
    json rows = json::array();
    for (const Ordered& order : state_.ordered) {
        json names = json::array();
        for (const NodeId& name : order.names) names.push_back(name.value);
        rows.push_back({{"nodes", order.nodes}, {"until_wall_ms", uses_.clock.to_wall(order.until)}, {"names", names}});
    }
    json unjoined = json::array();
    for (const auto& [node, entry] : state_.unjoined)
        unjoined.push_back(
            {{"node", node.value}, {"after_wall_ms", uses_.clock.to_wall(entry.after)}, {"failures", entry.failures}});
    const json kept = {{"orders", rows},
                       {"unjoined", unjoined},
                       {"failures", state_.failures},
                       {"order_after_wall_ms", uses_.clock.to_wall(state_.order_after)}};
    uses_.events.save({.tokens = {}, .settings = {{setting, json_text(kept)}}, .done = std::move(then)});
}

void Autoscaler::note(const std::string& text, const std::string& node) {
    uses_.events.note({.wall_ms = wall_ms(),
                       .text = "autoscale: " + text,
                       .about_run = std::nullopt,
                       .about_node = node.empty() ? std::nullopt : std::optional(NodeId{node})});
}

}  // namespace rtrain::head
