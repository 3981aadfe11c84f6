// See world.hpp: the network, the faults, and the end.
#include "tests/sim/world.hpp"

#include "tests/sim/head.hpp"
#include "tests/sim/node.hpp"
#include "tests/sim/users.hpp"

namespace rtrain::sim {

namespace {

// Quotas hold at least the largest gang (three workers), so that every run can start at some time.
Queues choose_queues(Dice& dice) {
    Queues queues;
    if (dice.one_in(3)) return queues;
    queues.half_life = {dice.between(60'000, 600'000)};
    queues.preemption_grace = {dice.between(0, 8'000)};
    const auto quota = [&](std::int64_t least) {
        return Resources{{"CPU", units(dice.between(least, 6))}, {"GPU", units(dice.between(least, 6))}};
    };
    queues.rules[default_queue].preempt = dice.one_in(2);
    queues.rules["lab"] = {.quota = quota(3)};
    for (const char* name : {"a", "b"})
        queues.rules[name] = {.share = dice.between(1, 4),
                              .parent = "lab",
                              .quota = dice.one_in(2) ? quota(1) : Resources{},
                              .borrow = true,
                              .preempt = dice.one_in(2)};
    for (const char* name : {"a1", "a2"})
        queues.rules[name] = {.share = 1,
                              .parent = "a",
                              .quota = dice.one_in(2) ? quota(1) : Resources{},
                              .borrow = true,
                              .preempt = dice.one_in(2)};
    return queues;
}

// Adds small budgets, so that some are used up in a minute or two. Their windows are short, so that every run starts at
// some time.
void add_budgets(Queues& queues, Dice dice) {
    queues.rules.try_emplace(default_queue);
    for (auto& [name, rules] : queues.rules) {
        const auto gpu_seconds = [&](std::int64_t least) {
            return Amount{dice.between(least, 40) * Amount::per_unit / 3'600};
        };
        if (dice.one_in(2)) rules.gpu_hours = gpu_seconds(4);
        if (dice.one_in(2)) rules.user_gpu_hours = gpu_seconds(4);
        if (dice.one_in(4)) rules.user_gpu_hours_of["ana"] = gpu_seconds(1);
        rules.budget_window = {dice.between(20'000, 120'000)};
        rules.budget_preempts = dice.one_in(3);
        if (!rules.budget_preempts) continue;
        constexpr std::int64_t more = 30;  // a run reaches a checkpoint before its budget is used up
        if (rules.gpu_hours) rules.gpu_hours = Amount{rules.gpu_hours->ticks * more};
        if (rules.user_gpu_hours) rules.user_gpu_hours = Amount{rules.user_gpu_hours->ticks * more};
        for (auto& [user, hours] : rules.user_gpu_hours_of) hours = Amount{hours.ticks * more};
    }
}

}  // namespace

Settings choose_settings(Dice& dice) {
    Settings settings;
    settings.nodes = static_cast<int>(dice.between(1, 5));
    settings.cpus = dice.between(1, 3);
    settings.gpus = static_cast<std::uint32_t>(dice.one_in(2) ? dice.between(1, 2) : 0);
    settings.runs = static_cast<int>(dice.between(1, 6));
    settings.latency_ms = dice.one_in(4) ? 400 : 5;
    settings.faults = static_cast<int>(dice.between(0, 14));
    settings.repeats = dice.one_in(2);
    settings.queues = choose_queues(dice);
    return settings;
}

World::World(std::uint64_t seed, bool print, Load load) : dice(seed) {
    trace.print = print;
    settings = choose_settings(dice);
    if (load.budgets == Budgets::some) add_budgets(settings.queues, Dice(seed + 1'000'003));
    if (load.helpers == Helpers::some) settings.helpers = static_cast<int>(Dice(seed + 2'000'003).between(1, 8));
    head = std::make_unique<SimHead>(*this);
    for (int i = 1; i <= settings.nodes; ++i) {
        const std::string name = "n" + std::to_string(i);
        nodes[name] = std::make_unique<SimNode>(*this, name);
    }
    users = std::make_unique<Users>(*this);
}

World::~World() = default;

void World::run() {
    head->start();
    for (auto& [name, node] : nodes) after(dice.between(0, 3'000), [&node = *node] { node.start_agent(); });
    users->begin();
    plan_faults();
    after(settings.chaos_ms, [this] { heal(); });
    const Time deadline = now() + Duration{settings.chaos_ms + 1'800'000};
    while (!(healed && quiet())) {
        if (now() >= deadline) {
            for (const auto& [name, node] : nodes) say(name, node->describe());
            for (const auto& [id, run] : head->disk().runs)
                if (!terminal(run.state))
                    say("users", run.name + " is " + to_text(run.state) + ": " + to_text(run.reason));
        }
        if (now() >= deadline) throw Violation{"half an hour after the last fault it is not quiet"};
        if (!clockwork.step()) throw Violation{"nothing happens any more"};
    }
    oracle.ended(head->disk());
    head->verify_journal();
}

bool World::quiet() const {
    if (!head->idle() || !users->done()) return false;
    for (const auto& [id, run] : head->disk().runs)
        if (!terminal(run.state)) return false;
    for (const auto& [name, node] : nodes)
        if (!node->quiet()) return false;
    return head->disk().runs.size() + oracle.removed() == users->runs();
}

// ---- network ------------------------------------------------------------------------------------------------------
bool World::dial_head(const std::string& node) {
    if (!head->up() || partitioned(node) || cut_from_head_.contains(node)) return false;
    Connection& connection = connections_[node];
    if (connection.open) cut(node);
    connection = {.id = next_connection_++, .open = true, .last_up = now(), .last_down = now()};
    head->opened(node, connection.id);
    nodes.at(node)->opened(connection.id);
    return true;
}

std::uint64_t World::connection_of(const std::string& node) const {
    const auto entry = connections_.find(node);
    return entry == connections_.end() || !entry->second.open ? 0 : entry->second.id;
}

Time World::arrival(Time& last) {
    last.ms = std::max(last.ms, now().ms + dice.between(0, settings.latency_ms));
    return last;
}

void World::to_head(const std::string& node, std::uint64_t id, protocol::FromAgent message) {
    if (id == 0 || connection_of(node) != id) return;
    const Time at = arrival(connections_[node].last_up);
    const bool twice =
        settings.repeats &&
        (std::holds_alternative<protocol::News>(message) || std::holds_alternative<protocol::NewsBatch>(message)) &&
        dice.one_in(30);
    for (int i = 0; i < (twice ? 2 : 1); ++i)
        after(at.ms - now().ms, [this, node, id, message] {
            if (connection_of(node) == id) head->heard(node, id, message);
        });
}

void World::to_agent(const std::string& node, std::uint64_t id, protocol::FromHead message) {
    if (id == 0 || connection_of(node) != id) return;
    const Time at = arrival(connections_[node].last_down);
    const bool twice = settings.repeats && !std::holds_alternative<protocol::Welcome>(message) && dice.one_in(30);
    for (int i = 0; i < (twice ? 2 : 1); ++i)
        after(at.ms - now().ms, [this, node, id, message] {
            if (connection_of(node) == id) nodes.at(node)->heard(id, message);
        });
}

void World::cut(const std::string& node) {
    const std::uint64_t id = connection_of(node);
    if (id == 0) return;
    connections_[node].open = false;
    after(dice.between(0, 2'000), [this, node, id] { nodes.at(node)->closed(id); });
    after(dice.between(0, 4'000), [this, node, id] { head->closed(node, id); });
}

void World::partition(const std::string& node, std::int64_t ms) {
    if (!partitioned_.insert(node).second) return;
    say(node, "is cut off");
    cut(node);
    nodes.at(node)->drop_groups();
    after(ms, [this, node] {
        partitioned_.erase(node);
        answers_anew(node);
        say(node, "is reached again");
    });
}

void World::cut_from_head(const std::string& node, std::int64_t ms) {
    if (!cut_from_head_.insert(node).second) return;
    say(node, "is cut off from the head alone");
    cut(node);
    after(ms, [this, node] { cut_from_head_.erase(node); });
}

bool World::machine_answers(const std::string& node) const {
    const auto entry = nodes.find(node);
    return entry != nodes.end() && entry->second->machine_up() && !partitioned(node);
}

bool World::head_reaches(const std::string& node) const {
    return machine_answers(node) && !cut_from_head_.contains(node);
}

// ---- faults -------------------------------------------------------------------------------------------------------
void World::plan_faults() {
    for (int i = 0; i < settings.faults; ++i)
        after(dice.between(2'000, settings.chaos_ms - 1), [this] { one_fault(); });
}

void World::one_fault() {
    auto at = nodes.begin();
    std::advance(at, dice.between(0, static_cast<std::int64_t>(nodes.size()) - 1));
    const std::string name = at->first;
    SimNode& node = *at->second;
    switch (dice.between(0, 16)) {
        case 0:
            if (head->up()) head->crash("by chance");
            return;
        case 1:
        case 2:
            if (node.up()) node.crash_agent("by chance");
            return;
        case 3:
            return node.reboot();
        case 4:
            return partition(name, dice.between(1'000, 8'000));
        case 5:
            return partition(name, dice.between(10'000, 25'000));
        case 6:
            slow_disk = !slow_disk;
            return;
        case 7:
            storage_full = !storage_full;
            return;
        case 8:
            return drain_or_undrain(name);
        case 9:
            return leave(name);
        case 10:
        case 11:
            return act_on_some_run();
        case 12:
            return node.reclaim(dice.between(0, 12'000));
        case 13:
            return cut_from_head(name, dice.between(1'000, 15'000));
        default:
            node.kill_some_process(dice.one_in(3) ? 6 : 9);
            return;
    }
}

void World::drain_or_undrain(const std::string& name) {
    if (dice.one_in(2)) return head->request(NodeUndrained{{name}});
    NodeDrained drained{.node = {name}, .by = "ana", .reason = "test"};
    if (dice.one_in(2)) drained.deadline = Duration{dice.between(0, 8'000)};
    head->request(drained);
}

// Removes the node, which is disconnected and joins again with a new token.
void World::leave(const std::string& name) {
    if (!head->up()) return;
    head->request(NodeLeft{{name}});
    cut(name);
}

// Requests a checkpoint, a stop or another change of a live run, as a user does.
void World::act_on_some_run() {
    std::vector<RunId> live;
    for (const auto& [id, run] : head->disk().runs)
        if (!terminal(run.state)) live.push_back(id);
    if (live.empty() || !head->up()) return;
    const RunId run = live[static_cast<std::size_t>(dice.between(0, static_cast<std::int64_t>(live.size()) - 1))];
    const auto most = static_cast<std::int64_t>(head->disk().runs.at(run).spec.gang.bundles.size());
    const auto deadline = dice.one_in(2) ? std::optional(Duration{dice.between(0, 8'000)}) : std::nullopt;
    if (dice.one_in(4)) users->remove_some_run();
    switch (dice.between(0, 3)) {
        case 0:
            return head->request(RunCheckpointAsked{.run = run, .by = "ana"});
        case 1:
            oracle.stop_asked(run);
            return head->request(
                RunStopAsked{.run = run, .by = "ana", .wall_ms = now().ms, .checkpoint = true, .deadline = deadline});
        default:
            return head->request(RunResizeAsked{.run = run,
                                                .by = "ana",
                                                .workers = static_cast<std::uint32_t>(dice.between(1, most)),
                                                .deadline = deadline});
    }
}

void World::heal() {
    healed = true;
    slow_disk = storage_full = false;
    say("world", "no more faults");
    after(60'000, [this] {
        for (const auto& [name, node] : nodes) users->request("undrain " + name, NodeUndrained{{name}});
    });
    after(300'000, [this] { users->stop_what_waits(); });
}

}  // namespace rtrain::sim
