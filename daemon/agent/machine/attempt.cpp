// The life of an attempt on this node: prepared, launched, ended, drained, emptied.
#include <signal.h>

#include <algorithm>

#include "daemon/agent/machine/steps.hpp"

namespace rtrain::agent {

using namespace protocol;

namespace {

AttemptKey key(const LocalAttempt& attempt) { return key_of(attempt.saved.prepare.attempt); }

bool all_exited(const LocalAttempt& attempt) {
    return std::all_of(attempt.workers.begin(), attempt.workers.end(),
                       [](const auto& worker) { return worker.second.exited; });
}

void gone(Step& step, AttemptKey key) {
    step.out.push_back(CloseAttempt{key});
    step.state.attempts.erase(key);
}

// Sends Prepared. The claim may have given a higher number than the order's. The head identifies the attempt by its
// incarnation until then.
void add_prepared(Step& step, const LocalAttempt& attempt, std::vector<EarlierCheckpoint> earlier = {}) {
    const SavedAttempt& saved = attempt.saved;
    add_news(step, Prepared{.attempt = reference(attempt),
                            .claimed = saved.prepare.claim,
                            .from = saved.from,
                            .master_address = saved.master_address,
                            .master_port = saved.master_port,
                            .earlier = std::move(earlier)});
}

LocalAttempt* find_ref(Step& step, const AttemptRef& ref) {
    if (ref.incarnation != 0) return find(step, key_of(ref));
    for (auto& [key, attempt] : step.state.attempts)
        if (key.run == ref.run && attempt.saved.number == ref.number) return &attempt;
    return nullptr;
}

}  // namespace

// Ends workers with SIGTERM now and SIGKILL after the grace. A second order can only shorten the grace.
void end_workers(Step& step, LocalAttempt& attempt, std::int64_t grace_ms) {
    const Time kill_at = step.now + Duration{std::max<std::int64_t>(grace_ms, 0)};
    for (auto& [rank, worker] : attempt.workers) {
        if (worker.exited) continue;
        if (worker.connected && !worker.signalled)
            step.out.push_back(ToWorker{key(attempt), rank, worker::Wanted{worker::Wish::stop}});
        if (worker.started && !worker.signalled)
            step.out.push_back(SignalWorker{key(attempt), rank, grace_ms > 0 ? SIGTERM : SIGKILL});
        worker.signalled = true;
    }
    if (!attempt.kill_at || kill_at < *attempt.kill_at) attempt.kill_at = kill_at;
    if (attempt.phase == Phase::running || attempt.phase == Phase::fetching) attempt.phase = Phase::ending;
}

namespace {

// Writes attempts/NNNNNN/end.json, on the agent of rank 0: first from its own facts, then with the head's texts.
void write_end(Step& step, const LocalAttempt& attempt) {
    if (!attempt.coordinates || (attempt.phase == Phase::drained && !attempt.stop_asked)) return;
    storage::AttemptEnd end{.number = attempt.saved.number,
                            .state = attempt.end_as,
                            .cause = attempt.stop_why,
                            .started_wall_ms = attempt.started_wall_ms,
                            .ended_wall_ms = step.wall_ms()};
    bool all_well = true, stopped = false;
    for (const auto& [rank, worker] : attempt.workers) {
        if (!worker.exit) continue;
        const ExitCause& cause = *worker.exit;
        end.ranks[rank] = {.exit_code = cause.exit_code, .signal = cause.signal, .detail = cause.detail};
        all_well = all_well && cause.success();
        stopped = stopped || cause.stopped_by_us;
        if (!cause.success() && !cause.stopped_by_us && !end.first_failure) end.first_failure = rank;
    }
    if (end.state.empty()) end.state = all_well ? "SUCCEEDED" : stopped && !end.first_failure ? "STOPPED" : "FAILED";
    if (end.cause.empty() && end.first_failure) end.cause = "rank " + std::to_string(*end.first_failure) + " failed";
    step.out.push_back(WriteEnd{key(attempt), std::move(end)});
}

}  // namespace

AttemptRef reference(const LocalAttempt& attempt) {
    AttemptRef ref = attempt.saved.prepare.attempt;
    ref.number = attempt.saved.number;
    return ref;
}

LocalAttempt* find(Step& step, AttemptKey key) {
    const auto entry = step.state.attempts.find(key);
    return entry == step.state.attempts.end() ? nullptr : &entry->second;
}

void prepare(Step& step, const Prepare& order) {
    if (LocalAttempt* known = find(step, key_of(order.attempt))) {
        // A repeated order. The answer is under way or in the outbox, unless this agent was restarted before it stored
        // the answer.
        if (known->adopted && known->phase == Phase::prepared && !known->stop_asked) add_prepared(step, *known);
        return;
    }
    if (step.state.reclaim)  // the order was already under way
        return add_news(step, PrepareFailed{.attempt = order.attempt,
                                            .why = step.state.node + " is taken away: " + step.state.reclaim->why,
                                            .permanent = false});
    LocalAttempt attempt;
    attempt.saved.prepare = order;
    attempt.saved.number = order.attempt.number;
    step.state.attempts.emplace(key_of(order.attempt), std::move(attempt));
    step.out.push_back(StartPreparation{order});
}

// If the agent dies before this news is stored, it repeats the news without the earlier checkpoints. Then they do not
// count in this attempt, and none of them is deleted.
void on(Step& step, const PreparationDone& input) {
    LocalAttempt* attempt = find(step, input.attempt);
    if (!attempt || attempt->phase != Phase::preparing) return;
    SavedAttempt& saved = attempt->saved;
    for (const std::string& text : input.notices)
        add_news(step, Notice{.attempt = reference(*attempt), .text = text, .reason = "prepare"});
    if (!input.why.empty()) {
        add_news(step, PrepareFailed{.attempt = reference(*attempt), .why = input.why, .permanent = input.permanent});
        if (attempt->stop_asked) add_news(step, Emptied{reference(*attempt)});
        return gone(step, input.attempt);
    }
    saved.number = std::max(saved.number, input.number);
    saved.from = input.from;
    saved.master_address = input.master_address;
    saved.master_port = input.master_port;
    saved.upload = input.upload;
    saved.local_run_path = input.local_run_path;
    saved.policy = input.policy;
    attempt->phase = Phase::prepared;
    if (attempt->stop_asked) return settle_end(step, input.attempt);
    step.out.push_back(KeepAttempt{saved});
    add_prepared(step, *attempt, input.earlier);
}

void launch(Step& step, const Launch& order) {
    LocalAttempt* attempt = find(step, key_of(order.attempt));
    if (!attempt || attempt->phase != Phase::prepared || attempt->stop_asked) return;
    attempt->saved.number = order.attempt.number;
    attempt->saved.from = order.from;
    attempt->saved.launch = order;
    for (const LaunchWorker& worker : order.workers) attempt->workers[worker.rank];
    attempt->phase = Phase::fetching;
    attempt->fetched_from = step.now;
    step.out.push_back(FetchCheckpoint{key_of(order.attempt), order.from});
}

void on(Step& step, const CheckpointFetched& input) {
    LocalAttempt* attempt = find(step, input.attempt);
    if (!attempt) return;
    if (attempt->phase == Phase::ending) {  // stopped meanwhile, before any worker started
        attempt->workers.clear();
        return settle_end(step, input.attempt);
    }
    if (attempt->phase != Phase::fetching) return;
    if (!input.why.empty()) {
        for (auto& [rank, worker] : attempt->workers) {
            worker.exited = true;
            add_news(step, Exited{.attempt = reference(*attempt),
                                  .rank = rank,
                                  .cause = {.exit_code = 1, .never_started = true, .detail = input.why},
                                  .exit_wall_us = step.wall_ms() * 1000});
        }
        attempt->phase = Phase::ending;
        return settle_end(step, input.attempt);
    }
    attempt->phase = Phase::running;
    if (!attempt->saved.from.empty()) attempt->restore_ms = (step.now - attempt->fetched_from).ms;
    attempt->started_wall_ms = step.wall_ms();
    open_group(*attempt);
    step.out.push_back(KeepAttempt{attempt->saved});
    step.out.push_back(StartWorkers{*attempt->saved.launch});
    if (!attempt->coordinates && !attempt->saved.prepare.nodes.empty())
        step.out.push_back(DialCoordinator{input.attempt, attempt->saved.prepare.nodes.front()});
    take_early(step, *attempt);
}

void on(Step& step, const AttemptFound& input) {
    LocalAttempt attempt;
    attempt.saved = input.saved;
    attempt.adopted = true;
    if (!step.state.registered && !step.state.alone_since) step.state.alone_since = step.now;
    const AttemptKey id = key(attempt);
    attempt.phase = Phase::prepared;
    if (input.saved.launch) {
        attempt.phase = Phase::running;
        for (const LaunchWorker& worker : input.saved.launch->workers) {
            LocalWorker& local = attempt.workers[worker.rank];
            const auto pid = input.workers.find(worker.rank);
            local.started = pid != input.workers.end();
            if (local.started) local.pid = pid->second;
        }
        open_group(attempt);
        if (!attempt.coordinates) attempt.nodes_cut.emplace("", step.now);
        for (const PeerNode& node : input.saved.prepare.nodes)  // until they connect
            if (attempt.coordinates && node.node != attempt.coordinator->own_node)
                attempt.nodes_cut.emplace(node.node, step.now);
        resume_checkpoint(step, attempt);
    }
    const bool dials = input.saved.launch && !attempt.coordinates && !input.saved.prepare.nodes.empty();
    if (dials) step.out.push_back(DialCoordinator{id, input.saved.prepare.nodes.front()});
    step.state.attempts.insert_or_assign(id, std::move(attempt));
}

void on(Step& step, const WorkerStarted_& input) {
    LocalAttempt* attempt = find(step, input.attempt);
    if (!attempt || !attempt->workers.contains(input.rank)) return;
    LocalWorker& worker = attempt->workers[input.rank];
    worker.started = true;
    worker.pid = input.pid;
    add_news(step, Started{.attempt = reference(*attempt),
                           .rank = input.rank,
                           .pid = input.pid,
                           .host = step.state.inventory.address,
                           .restore_ms = attempt->restore_ms});
    if (attempt->phase == Phase::ending && !worker.exited) {  // the stop arrived before the start was known
        worker.signalled = true;
        const bool late = attempt->kill_at && step.now >= *attempt->kill_at;
        step.out.push_back(SignalWorker{input.attempt, input.rank, late ? SIGKILL : SIGTERM});
    }
}

void on(Step& step, const WorkerEnded& input) {
    LocalAttempt* attempt = find(step, input.attempt);
    if (!attempt || !attempt->workers.contains(input.rank)) return;
    LocalWorker& worker = attempt->workers[input.rank];
    if (worker.exited) return;
    worker.exited = true;
    ExitCause cause = input.cause;
    cause.address_in_use = input.cause.address_in_use && attempt->local && attempt->local->passed == 0;
    cause.out_of_memory = cause.out_of_memory || (worker.over_memory && !cause.success());
    cause.stopped_by_us = worker.signalled && !cause.success() && !cause.out_of_memory;
    if (!cause.success() && !worker.fail_text.empty()) cause.detail = worker.fail_text;
    worker.exit = cause;
    add_news(step,
             Exited{.attempt = reference(*attempt), .rank = input.rank, .cause = cause, .exit_wall_us = input.wall_us});
    if (cause.success()) rank_ended_well(step, *attempt, input.rank);
    if (!cause.success() && !attempt->failed) {
        attempt->failed = true;
        // Its peers would wait for it in a collective for ever. In an attempt that is being ended they keep their
        // grace.
        if (attempt->phase != Phase::ending) end_workers(step, *attempt, 0);
    }
    settle_end(step, input.attempt);
}

void stop(Step& step, const Stop& order) {
    LocalAttempt* attempt = find_ref(step, order.attempt);
    if (!attempt) return add_news(step, Emptied{order.attempt});  // unknown or over: no process of it is here
    attempt->stop_asked = true;
    if (order.alone && !attempt->others_gone) attempt->others_gone = step.now;
    attempt->stop_why = order.why;
    attempt->end_as = order.end_as;
    const AttemptKey id = key(*attempt);
    attempt->at_once = attempt->at_once || order.at_once;
    if (attempt->phase == Phase::preparing) return;  // handled when the preparation has ended
    end_workers(step, *attempt, order.grace_ms);
    attempt_time(step, *attempt);
    settle_end(step, id);
}

void on(Step& step, const LogsDone& input) {
    LocalAttempt* attempt = find(step, input.attempt);
    if (!attempt) return;
    attempt->logs_done = true;
    settle_end(step, input.attempt);
}

void attempt_time(Step& step, LocalAttempt& attempt) {
    if (attempt.kill_at && step.now >= *attempt.kill_at) {
        attempt.kill_at.reset();
        for (auto& [rank, worker] : attempt.workers)
            if (worker.started && !worker.exited) step.out.push_back(SignalWorker{key(attempt), rank, SIGKILL});
    }
    last_checkpoint_time(step, attempt);
}

void settle_end(Step& step, AttemptKey id) {
    LocalAttempt* attempt = find(step, id);
    if (!attempt || attempt->phase == Phase::preparing || attempt->phase == Phase::fetching) return;
    if (attempt->phase == Phase::prepared) {  // no worker was started
        if (!attempt->stop_asked) return;
        add_news(step, Emptied{reference(*attempt)});
        return gone(step, id);
    }
    if (!all_exited(*attempt)) return;
    attempt->phase = attempt->phase == Phase::drained ? Phase::drained : Phase::ending;
    attempt->kill_at.reset();
    if (!attempt->logs_asked) {
        attempt->logs_asked = true;
        step.out.push_back(FinishLogs{id});
    }
    if (!uploads_settled(*attempt) && attempt->at_once)
        abandon_uploads(step, *attempt, "the run was stopped at once (rtrain stop --now)");
    if (!uploads_settled(*attempt)) {
        if (!attempt->uploads_from) attempt->uploads_from = step.now;
        return;
    }
    attempt->uploads_from.reset();
    if (!attempt->logs_done) return;
    write_end(step, *attempt);
    attempt->phase = Phase::drained;
    if (!attempt->stop_asked) return;  // the head has not received the end yet, or waits for other nodes
    add_news(step, Emptied{reference(*attempt)});
    gone(step, id);
}

}  // namespace rtrain::agent
