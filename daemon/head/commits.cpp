// From what came to what is done: turns, their commits, and what waits for these. See shell.hpp for the picture.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "daemon/head/counting.hpp"
#include "daemon/head/shell.hpp"
#include "daemon/net/loop/posted.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t room_again_ms = 1'000;  // so often a full disk is tried again
constexpr std::int64_t slice_us = 1'000;  // what is durable is performed for so long, before others have their turn

// A debug build holds the state, and what is derived from it, against a recount after every event: it looks at
// everything.
void recount([[maybe_unused]] const Cluster& cluster) {
#ifndef NDEBUG
    const auto broken = invariants(cluster);
    RTRAIN_CHECK(broken.empty(), broken.front());
#endif
}

}  // namespace

void Head::take(Event event, Answer answer) {
    const std::int64_t posted_us = net::posted_us();
    waiting_.push_back(
        {std::move(event), std::move(answer), posted_us == 0 ? monotonic_us() : posted_us, taken_audit()});
    post_turn();
}

void Head::save(Aside aside) {
    Pending& next = queue_.newest();
    for (const auto& [key, value] : aside.settings) {
        next.batch.settings[key] = value;
        remember(key, value);
    }
    for (const state::TokenRow& token : aside.tokens) next.batch.tokens.push_back(token);
    if (aside.done) next.add(taken_audit());  // else it goes with an event, whose row that is
    next.rows += aside.settings.size() + aside.tokens.size();
    next.asides.push_back(std::move(aside));
    post_turn();
}

std::optional<state::AuditRow> Head::taken_audit() {
    return auditing ? std::exchange(*auditing, std::nullopt) : std::nullopt;
}

void Head::post_turn() {
    if (std::exchange(turn_posted_, true)) return;
    loop.next([this] { turn(); });
}

void Head::turn() {
    turn_posted_ = false;
    if (*failure) return;
    decide_waiting();
    if (queue_.full(reports.waiting())) queue_.close([this](Pending& batch) { collect(batch); });
    begin_commit();
}

void Head::turn_when_full() {
    if (queue_.full(reports.waiting())) post_turn();
}

// What has come by now is decided in order.
void Head::decide_waiting() {
    if (waiting_.empty()) return;
    std::vector<Waiting> inputs = std::exchange(waiting_, {});
    std::vector<Event> events;
    for (Waiting& one : inputs) events.push_back(std::move(one.event));

    const std::int64_t begun_us = monotonic_us();
    const auto check = [this] { recount(cluster); };
    Pending::Decided decided{
        .turn = decide_turn(cluster, clock.now(), wall_ms(), events, check), .orders = {}, .answers = {}};
    const std::int64_t decided_us = monotonic_us();
    metrics.scheduled(static_cast<double>(decided_us - begun_us) / 1e6);
    for (const Waiting& one : inputs) metrics.decided(static_cast<double>(decided_us - one.came_us) / 1e6);
    note_records(decided.turn);
    planner.saw(decided.turn);
    for (const Decision& decision : decided.turn.decisions)
        for (auto& order : agents.orders(decision.act)) decided.orders.push_back(std::move(order));
    for (Waiting& one : inputs) decided.answers.push_back(std::move(one.answer));
    for (std::size_t i = 0; i < inputs.size(); ++i) add_audit(std::move(inputs[i].audit), decided.turn.decisions[i]);
    queue_.newest().add(std::move(decided));
    wake();
}

// Adds the audit row to the transaction of the change: the newest batch takes both within one turn. A refused event
// changed nothing and has no row.
void Head::add_audit(std::optional<state::AuditRow> row, const Decision& decision) {
    if (!row || decision.refused) return;
    if (decision.created) row->run = run_id(*decision.created);
    queue_.newest().add(std::move(row));
}

// What people look up follows the cluster at once: two requests never find one name free.
void Head::note_records(const Turn& turn) {
    for (const Decision& decision : turn.decisions)
        for (const Record& record : decision.save) {
            if (const Run* run = std::get_if<Run>(&record)) names.saw(*run);
            if (const Attempt* placed = std::get_if<Attempt>(&record); placed && placed->placed_at == turn.now)
                count_placed(*this, *placed);
            if (const EraseRun* gone = std::get_if<EraseRun>(&record)) names.forget(gone->id);
        }
}

// What news meant (events, notices, metrics) and their numbers become durable together, or not at all: after a crash
// the agent sends again exactly what was not. So nothing may wait to be decided here.
void Head::collect(Pending& batch) {
    RTRAIN_CHECK(waiting_.empty(), "a batch is closed with undecided events");
    batch.batch.metrics = reports.to_save();
    agents.add_numbers(batch);
    revocations.add_changes(batch);
}

void Head::begin_commit() {
    if (*failure) return;
    const Pending* next = queue_.begin([this](Pending& batch) { collect(batch); });
    if (!next) return;
    next->writes() ? write() : committed(Done{});
}

void Head::write() {
    auto outcome = std::make_shared<std::promise<Status>>();
    outcome_ = outcome->get_future();
    writer_.add([this, outcome, &batch = queue_.now_written().batch, number = ++commits_] {
        const std::int64_t begun_us = monotonic_us();
        Status status = journal->commit(batch);
        metrics.commit(static_cast<double>(monotonic_us() - begun_us) / 1e6);
        outcome->set_value(std::move(status));
        loop.post([this, number] {  // else somebody has waited for it
            if (queue_.under_way() && commits_ == number && outcome_.valid()) committed(outcome_.get());
        });
    });
}

void Head::committed(const Status& status) {
    if (!status && status.error().code == ErrorCode::full) return wait_for_room(status.error());
    const std::unique_ptr<Pending> done = queue_.end();
    if (!status) return fail(status.error());
    if (*no_room) std::fprintf(stderr, "rtrain head: there is room again; what waited for it is written\n");
    no_room->reset();
    agents.numbers_saved(*done);
    revocations.saved(*done);
    const state::Batch& saved = done->batch;
    if (!saved.entries.empty() || !saved.notices.empty() || !saved.metrics.empty()) feeds.poke();
    hand_over(std::move(*done));
    if (!waiting_.empty() || queue_.wanted()) turn();  // the disk does not wait for what is performed
    perform_some();
}

// What was decided stays in its order and is tried again; nothing of it is performed before it is written. Who asked
// for a change is told so (counting.cpp, Unanswered); who only asked what is, gets the answer.
void Head::wait_for_room(const Error& why) {
    if (!*no_room)
        std::fprintf(stderr, "rtrain head: %s; no change is taken until there is room\n", why.message.c_str());
    *no_room = why;
    queue_.each([](Pending& one) {
        for (Pending::Decided& decided : one.turns)
            for (Answer& answer : decided.answers) answer = {};
        for (Aside& aside : one.asides) aside.done = {};
        for (const auto& tell : std::exchange(one.told, {})) tell();
    });
    loop.after(room_again_ms, [this] {
        if (queue_.under_way() && !outcome_.valid() && !*failure) write();
    });
}

void Head::hand_over(Pending durable) {
    for (Aside& aside : durable.asides)
        if (aside.done) durable_.push_back(std::move(aside.done));
    for (Pending::Decided& one : durable.turns) {
        for (auto& order : one.orders) durable_.push_back(std::move(order));
        const auto turn = std::make_shared<const Turn>(std::move(one.turn));
        durable_.emplace_back([this, turn] { after_records(*turn); });
        for (std::size_t i = 0; i < one.answers.size(); ++i)
            if (one.answers[i])
                durable_.emplace_back([turn, i, answer = std::move(one.answers[i])] { answer(turn->decisions[i]); });
    }
    for (auto& task : durable.told) durable_.push_back(std::move(task));
    for (auto& task : durable.then) durable_.push_back(std::move(task));
}

void Head::perform_some() {
    const std::int64_t until_us = monotonic_us() + slice_us;
    while (!durable_.empty()) {
        const net::Loop::Task task = std::move(durable_.front());
        durable_.pop_front();
        task();
        if (monotonic_us() >= until_us) break;
    }
    if (durable_.empty() || std::exchange(perform_posted_, true)) return;
    loop.post([this] {
        perform_posted_ = false;
        perform_some();
    });
}

void Head::after_records(const Turn& turn) {
    for (const Decision& decision : turn.decisions)
        for (const Record& record : decision.save) {
            if (const Run* run = std::get_if<Run>(&record); run && terminal(run->state)) {
                SubmissionFiles::forget_secrets(*this, *run);
                tokens.forget_run(run->id);
                reports.end(run->id);
            }
            if (const EraseRun* gone = std::get_if<EraseRun>(&record)) {
                reports.forget(gone->id);
                on_log_thread([this, id = gone->id] { forget_logs(logs.directory(), id); }, [] {});
            }
        }
}

void Head::once_durable(std::function<void()> task) {
    Pending* last = *no_room ? nullptr : queue_.last_decided();
    if (last) return last->told.push_back(std::move(task));
    task();
}

bool Head::ended_for_good(const Run& run) const { return terminal(run.state) && !queue_.about(run.id); }

void Head::settle() noexcept {
    queue_.newest().then.emplace_back([] {});
    turn();
    while (queue_.under_way() && !*failure && outcome_.valid()) committed(outcome_.get());
    while (!durable_.empty()) perform_some();
}

void Head::give_up_waiting() {
    waiting_.clear();
    if (queue_.under_way() && outcome_.valid()) outcome_.wait();
    queue_.give_up();
}

void Head::acknowledge() {
    acknowledging_ = false;
    queue_.newest().then.emplace_back([this] { agents.acknowledge(); });
    turn();  // what is acknowledged must have been decided
}

}  // namespace rtrain::head
