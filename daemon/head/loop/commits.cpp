// Commits the decided changes, and runs the tasks that wait for them. See event_loop.hpp for the picture.
#include <cstdio>
#include <utility>

#include "daemon/head/loop/event_loop.hpp"

namespace rtrain::head {
namespace {

constexpr std::int64_t room_again_ms = 1'000;  // ms between two tries while the disk is full

}  // namespace

// Completes a batch that is about to be written. The effects of news (events, notices, metrics) become durable together
// with the numbers of these news. So an agent sends exactly the lost news again after a crash. Therefore no event may
// be undecided here.
void EventLoop::collect(Pending& batch) {
    RTRAIN_CHECK(waiting_.empty(), "a batch is closed with undecided events");
    steps_.collect(batch);
}

void EventLoop::begin_commit() {
    if (*failure_) return;
    const Pending* next = queue_.begin([this](Pending& batch) { collect(batch); });
    if (!next) return;
    next->writes() ? write() : committed(Done{});
}

void EventLoop::write() {
    auto outcome = std::make_shared<std::promise<Status>>();
    outcome_ = outcome->get_future();
    writer_.add([this, outcome, &now = queue_.now_written(), number = ++commits_] {
        const std::int64_t begun_us = monotonic_us();
        Status status = journal_.commit(now.batch, &now.grown);
        metrics_.commit(static_cast<double>(monotonic_us() - begun_us) / 1e6);
        outcome->set_value(std::move(status));
        // another function may have waited for this commit already, and then nothing is left to do
        loop_.post([this, number] {
            if (queue_.under_way() && commits_ == number && outcome_.valid()) committed(outcome_.get());
        });
    });
}

void EventLoop::committed(const Status& status) {
    if (!status && status.error().code == ErrorCode::full) return wait_for_room(status.error());
    const std::unique_ptr<Pending> done = queue_.end();
    if (!status) return fail(status.error());
    if (*no_room_) std::fprintf(stderr, "rtrain head: there is room again; what waited for it is written\n");
    no_room_->reset();
    steps_.saved(*done);
    hand_over(std::move(*done));
    // The next commit starts before effects are performed.
    if (!waiting_.empty() || queue_.wanted()) decide_and_commit();
    perform_some();
}

// Waits for disk space. Decided changes stay in order and are written again later. Their effects are not performed
// before. Requests for changes get an error (requests/timed.cpp, Unanswered); queries get their answers.
void EventLoop::wait_for_room(const Error& why) {
    if (!*no_room_)
        std::fprintf(stderr, "rtrain head: %s; no change is taken until there is room\n", why.message.c_str());
    *no_room_ = why;
    queue_.each([](Pending& batch) {
        for (Pending::Decided& decided : batch.decided)
            for (Answer& answer : decided.answers) answer = {};
        for (Aside& aside : batch.asides) aside.done = {};
        for (const auto& answer : std::exchange(batch.once_durable, {})) answer();
    });
    loop_.after(room_again_ms, [this] {
        if (queue_.under_way() && !outcome_.valid() && !*failure_) write();
    });
}

void EventLoop::once_durable(std::function<void()> task) {
    Pending* last = *no_room_ ? nullptr : queue_.last_decided();
    if (last) return last->once_durable.push_back(std::move(task));
    task();
}

void EventLoop::once_written(Task task) {
    if (*no_room_) return task();
    queue_.newest().once_durable.push_back(std::move(task));
    queue_.newest().then.emplace_back([] {});  // an empty task, so that a commit is made now
    post_decide();
}

bool EventLoop::ended_for_good(const Run& run) const { return terminal(run.state) && !queue_.about(run.id); }

void EventLoop::settle() noexcept {
    queue_.newest().then.emplace_back([] {});
    decide_and_commit();
    while (queue_.under_way() && !*failure_ && outcome_.valid()) committed(outcome_.get());
    while (!durable_.empty()) perform_some();
}

void EventLoop::give_up_waiting() {
    waiting_.clear();
    if (queue_.under_way() && outcome_.valid()) outcome_.wait();
    queue_.give_up();
}

void EventLoop::fail(Error error) {
    if (!*failure_) *failure_ = std::move(error);
    loop_.stop();
}

Status EventLoop::finish() {
    if (!*failure_) acknowledge();
    settle();
    if (!*failure_ && queue_.under_way()) *failure_ = *no_room_;
    if (!*failure_) return Done{};
    give_up_waiting();
    return **failure_;
}

// ---- durability.hpp
bool Durability::all_durable() const { return loop_->all_durable(); }
void Durability::once_durable(Task task) const { loop_->once_durable(std::move(task)); }
void Durability::once_written(Task task) const { loop_->once_written(std::move(task)); }
void Durability::behind_commits(Task work) const { loop_->behind_commits(std::move(work)); }
bool Durability::ended_for_good(const Run& run) const { return loop_->ended_for_good(run); }
Durability::Why Durability::failure() const { return loop_->failure(); }
Durability::Why Durability::no_room() const { return loop_->no_room(); }

}  // namespace rtrain::head
