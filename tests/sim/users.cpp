// See users.hpp.
#include "tests/sim/users.hpp"

#include <algorithm>

#include "scheduler/model/derived.hpp"
#include "tests/sim/head.hpp"

namespace rtrain::sim {

Script script_of(const std::string& run_name) {
    std::uint64_t seed = 7;
    for (const char c : run_name) seed = seed * 31 + static_cast<unsigned char>(c);
    Dice dice(seed);
    Script script{.steps = static_cast<std::uint64_t>(dice.between(2, 8)),
                  .checkpoint_every = static_cast<std::uint64_t>(dice.between(1, 3))};
    if (dice.one_in(3)) script.checkpoint_name = "latest";
    return script;
}

namespace {

RunSubmitted some_submission(Dice& dice, const Settings& settings, int index) {
    RunSubmitted event;
    event.name = "run" + std::to_string(index) + "-" + std::to_string(dice.between(0, 999));
    event.user = "ana";
    event.submit_key = "key" + std::to_string(index);
    event.storage_path = "sim";
    event.job_json = "{}";
    Bundle bundle;
    bundle.demand["CPU"] = units(1);
    if (settings.gpus > 0 && dice.one_in(2)) bundle.demand["GPU"] = dice.one_in(2) ? Amount{5'000} : units(1);
    event.spec.gang.bundles.assign(static_cast<std::size_t>(dice.between(1, 3)), bundle);
    if (dice.one_in(3)) {  // An elastic run, which grows soon enough to do so while faults still happen.
        event.spec.gang.bundles.push_back(bundle);
        const auto most = static_cast<std::int64_t>(event.spec.gang.bundles.size());
        event.spec.elastic = Elastic{.workers_min = static_cast<std::uint32_t>(dice.between(1, most - 1)),
                                     .grow_after = {dice.between(0, 6'000)}};
    }
    event.spec.checkpoint_on_drain = !dice.one_in(4);
    event.spec.gang.strategy = dice.one_in(2) ? Strategy::pack : Strategy::spread;
    event.spec.priority = static_cast<std::int32_t>(dice.between(0, 2));
    event.spec.failure.max_failures = static_cast<std::int32_t>(dice.between(-1, 4));
    event.spec.stop_grace = Duration{dice.between(200, 3'000)};
    if (dice.one_in(2)) event.spec.retention.num_to_keep = static_cast<std::uint32_t>(dice.between(1, 2));
    if (dice.one_in(2)) event.spec.retention.score_attribute = "step";
    event.spec.retention.higher_is_better = dice.one_in(2);
    event.spec.retention.latest_until_success = index % 3 == 0;
    if (!settings.queues.rules.empty()) {
        auto queue = settings.queues.rules.begin();
        std::advance(queue, dice.between(0, static_cast<std::int64_t>(settings.queues.rules.size()) - 1));
        event.spec.queue = queue->first;
    }
    if (dice.one_in(4)) event.spec.wall_time_limit = Duration{dice.between(120'000, 900'000)};
    if (dice.one_in(3)) event.program = "session-" + std::to_string(dice.between(0, 1));
    return event;
}

}  // namespace

Users::Users(World& world) : world_(world) {}

void Users::begin() {
    if (!world_.settings.queues.rules.empty())
        request("queues", QueuesConfigured{.queues = world_.settings.queues, .by = "queues.yaml"});
    for (int i = 0; i < world_.settings.runs; ++i) {
        RunSubmitted event = some_submission(world_.dice, world_.settings, i);
        if (world_.dice.one_in(6)) {  // A job array, of which only some runs may run at a time.
            event.array = {1, 2, 3};
            event.array_parallel = static_cast<std::uint32_t>(world_.dice.between(0, 2));
        }
        const bool follows = world_.dice.one_in(4);
        world_.after(world_.dice.between(1'000, 25'000),
                     [this, event, follows] { request(event.submit_key, follows ? after_another(event) : event); });
    }
    runs_ = static_cast<std::size_t>(world_.settings.runs);
    if (world_.dice.one_in(2))
        for (int i = 0; i < world_.settings.runs; ++i)
            world_.after(world_.dice.between(5'000, 60'000), [this] { remove_some_run(); });
    for (int i = 0; i < world_.settings.helpers; ++i) {
        world_.after(world_.dice.between(2'000, 39'000), [this, i] { submit_helper(i); });
        world_.after(world_.dice.between(5'000, 60'000), [this] { let_some_yield(); });
    }
}

// Submits a run that may yield, of a run that has workers or of a session.
void Users::submit_helper(int index) {
    RunSubmitted event = some_submission(world_.dice, world_.settings, index);
    event.name = "helper" + std::to_string(index);
    event.submit_key = "helper-key" + std::to_string(index);
    event.spec.gang.bundles.resize(1);
    event.spec.elastic.reset();
    event.yielding = world_.dice.one_in(4) ? Yielding::paused : Yielding::active;
    std::vector<const Run*> owners;
    for (const auto& [id, run] : world_.head->disk().runs)
        if (run.state == RunState::running || run.state == RunState::starting) owners.push_back(&run);
    if (owners.empty() || world_.dice.one_in(3)) {
        event.program = "session-1";
    } else {
        const auto most = static_cast<std::int64_t>(owners.size()) - 1;
        const Run& owner = *owners[static_cast<std::size_t>(world_.dice.between(0, most))];
        event.parent = owner.id;
        event.spec.queue = owner.spec.queue;
    }
    request(event.submit_key, event);
}

void Users::let_some_yield() {
    for (const auto& [id, run] : world_.head->disk().runs)
        if (may_yield(run) && !terminal(run.state) && world_.dice.one_in(2))
            world_.head->request(RunYieldsChanged{
                .run = id, .by = "ana", .yielding = yields(run) ? Yielding::paused : Yielding::active});
}

// Adds `--after` with one of the present runs.
RunSubmitted Users::after_another(RunSubmitted event) {
    const auto& runs = world_.head->disk().runs;
    if (runs.empty()) return event;
    auto before = runs.begin();
    std::advance(before, world_.dice.between(0, static_cast<std::int64_t>(runs.size()) - 1));
    if (removing_.contains(before->first)) return event;
    event.spec.after.push_back(
        {.run = before->first, .what = world_.dice.one_in(2) ? AfterWhat::ended : AfterWhat::succeeded});
    return event;
}

void Users::request(const std::string& key, const Event& event) {
    if (const auto* stop = std::get_if<RunStopAsked>(&event)) world_.oracle.stop_asked(stop->run);
    if (unanswered_.emplace(key, event).second) repeat(key);
}

void Users::repeat(const std::string& key) {
    const auto entry = unanswered_.find(key);
    if (entry == unanswered_.end()) return;
    world_.head->request(entry->second);
    world_.after(world_.dice.between(1'000, 5'000), [this, key] { repeat(key); });
}

void Users::answered(const Event& event, const Decision& decision) {
    if (const auto* submitted = std::get_if<RunSubmitted>(&event)) {
        const bool helps = submitted->yielding != Yielding::never;
        if (decision.created && world_.oracle.accepted(submitted->submit_key, *decision.created))
            runs_ += helps ? 1 : submitted->array.empty() ? 0 : submitted->array.size() - 1;
        unanswered_.erase(submitted->submit_key);
        if (decision.refused && !helps) {  // The predecessor of the run can no longer succeed.
            RunSubmitted alone = *submitted;
            alone.spec.after.clear();
            request(alone.submit_key, alone);
        }
        if (decision.created && !world_.healed &&
            world_.dice.one_in(3))  // A client that did not receive the answer sends the request again, late.
            world_.after(world_.dice.between(5'000, 40'000), [this, again = *submitted, run = *decision.created] {
                // The key of a removed run is forgotten.
                if (!removing_.contains(run)) request(again.submit_key, again);
            });
        if (decision.created && !world_.healed && world_.dice.one_in(5)) {
            const RunId run = *decision.created;
            world_.after(world_.dice.between(500, 20'000), [this, run] {
                if (removing_.contains(run)) return;
                request("stop" + std::to_string(run.value),
                        RunStopAsked{.run = run, .by = "ana", .wall_ms = world_.now().ms});
            });
        }
    }
    if (std::holds_alternative<QueuesConfigured>(event)) unanswered_.erase("queues");
    if (const auto* undrained = std::get_if<NodeUndrained>(&event))
        unanswered_.erase("undrain " + undrained->node.value);
    if (const auto* removed = std::get_if<RunRemoved>(&event))
        unanswered_.erase("remove" + std::to_string(removed->run.value));
    if (const auto* stop = std::get_if<RunStopAsked>(&event))
        unanswered_.erase("stop" + std::to_string(stop->run.value));
}

// Sends `rtrain runs rm`. A run stays if other runs are being submitted with `--after` it: they would be refused, and
// submitted again without it.
void Users::remove_some_run() {
    const auto wanted = [&](const Event& event, RunId id) {
        const auto* submitted = std::get_if<RunSubmitted>(&event);
        return submitted != nullptr && std::any_of(submitted->spec.after.begin(), submitted->spec.after.end(),
                                                   [&](const After& one) { return one.run == id; });
    };
    for (const auto& [id, run] : world_.head->disk().runs) {
        const bool asked =
            unanswered_.contains(run.submit_key) || unanswered_.contains("stop" + std::to_string(id.value));
        const bool needed = std::any_of(unanswered_.begin(), unanswered_.end(),
                                        [&, run_id = id](const auto& one) { return wanted(one.second, run_id); });
        if (!terminal(run.state) || asked || needed || !removing_.insert(id).second) continue;
        return request("remove" + std::to_string(id.value), RunRemoved{id});
    }
}

void Users::stop_what_waits() {
    for (const auto& [id, run] : world_.head->disk().runs)
        if (run.state == RunState::queued && run.reason.is<reasons::NeverFits>())
            request("stop" + std::to_string(id.value),
                    RunStopAsked{.run = id, .by = "ana", .wall_ms = world_.now().ms});
    world_.after(60'000, [this] { stop_what_waits(); });  // The next run of an array may be as large.
}

}  // namespace rtrain::sim
