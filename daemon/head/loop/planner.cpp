// See planner.hpp.
#include "daemon/head/loop/planner.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "daemon/head/base/clock.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t records_most = 20'000;  // the most records that wait for the planner's thread

Error too_many(const std::string& whose, std::size_t count) {
    return {ErrorCode::unreachable,
            "the head is making " + std::to_string(count) + " plans and explanations" + whose + " already",
            "ask again in some seconds; rtrain submit needs none"};
}

// Removes the texts that no plan needs. They would be most of the copy's bytes.
Run without_texts(Run run) {
    run.job_json.clear();
    run.warnings.clear();
    return run;
}

// Applies records to the copy of the cluster. Ended runs take no room, so they are removed; a query that needs such
// runs brings their records. A run's record comes before those of its attempts.
void follow(Cluster& copy, const std::vector<Record>& records) {
    for (const Record& record : records) {
        const Attempt* attempt = std::get_if<Attempt>(&record);
        const Checkpoint* checkpoint = std::get_if<Checkpoint>(&record);
        if ((attempt && !copy.runs.contains(attempt->id.run)) || (checkpoint && !copy.runs.contains(checkpoint->run)))
            continue;
        apply(copy, record);
        if (const Run* run = std::get_if<Run>(&record); run && terminal(run->state)) apply(copy, EraseRun{run->id});
    }
}

Status look_at(Cluster& copy, const Planner::Work& work, const std::vector<Record>& predecessors) {
    try {
        for (const Record& run : predecessors) apply(copy, run);
        work(copy);
        for (const Record& run : predecessors) apply(copy, EraseRun{std::get<Run>(run).id});
        return Done{};
    } catch (const std::exception& wrong) { return net::thrown(wrong, "a look at the cluster"); }
}

}  // namespace

Planner::Planner(const Cluster& cluster, net::Background background, PlannerLimits limits)
    : cluster_(cluster), background_(background), limits_(limits) {}

Planner::~Planner() { thread_.stop(); }

void Planner::plan(Time now, RunSubmitted event, Then then) {
    const auto plan = std::make_shared<Plan>();
    const std::string user = event.user;
    const std::vector<After> after = event.spec.after;
    look(
        user, [plan, now, event = std::move(event)](const Cluster& copy) { *plan = rtrain::plan(copy, now, event); },
        [plan, then = std::move(then)](const Status& looked) {
            if (!looked) return then(looked.error());
            then(std::move(*plan));
        },
        after);
}

void Planner::look(const std::string& user, Work work, Done done, const std::vector<After>& after) {
    if (asked_ >= limits_.questions) return done(too_many("", asked_));
    std::size_t& of_user = asked_by_[user];
    if (of_user >= limits_.questions_of_user) return done(too_many(" for " + user, of_user));
    ++of_user;
    ++asked_;
    last_asked_us_ = monotonic_us();
    auto question = std::make_shared<Question>();
    question->user = user;
    question->work = std::move(work);
    question->done = std::move(done);
    question->after = after;
    background_.after(limits_.deadline_ms, [this, weak = std::weak_ptr<Question>(question)] {
        const auto late = weak.lock();
        if (late && !late->over)
            answer(late, Error{ErrorCode::unreachable,
                               "the answer was not made within " + std::to_string(limits_.deadline_ms / 1'000) + " s",
                               "ask again; rtrain submit needs none"});
    });
    waiting_[user].push_back(std::move(question));
    if (!copy_) begin_copy();
    begin_next();
}

void Planner::begin_next() {
    if (working_ || copying_ || waiting_.empty()) return;
    auto user = waiting_.upper_bound(last_user_);
    if (user == waiting_.end()) user = waiting_.begin();
    last_user_ = user->first;
    const auto question = user->second.front();
    user->second.pop_front();
    if (user->second.empty()) waiting_.erase(user);
    hand_over(question);
}

void Planner::saw(const Decisions& decisions) {
    if (!copy_) return;
    for (const Decision& decision : decisions.by_event)
        for (const Record& record : decision.save) {
            const Run* run = std::get_if<Run>(&record);
            since_.push_back(run ? Record(without_texts(*run)) : record);
        }
    if (copying_ || since_.size() < records_most) return;
    thread_.add([copy = copy_, records = std::exchange(since_, {})] { follow(*copy, records); });
}

void Planner::drop_copy_later() {
    if (asked_ > 0 || std::exchange(drop_is_due_, true)) return;
    const std::int64_t quiet_ms = (monotonic_us() - last_asked_us_) / 1'000;
    background_.after(std::max<std::int64_t>(1, limits_.kept_ms - quiet_ms), [this] {
        drop_is_due_ = false;
        if (asked_ > 0 || !copy_) return;
        if (monotonic_us() - last_asked_us_ < limits_.kept_ms * 1'000) return drop_copy_later();
        drop_copy();
    });
}

void Planner::drop_copy() {
    since_.clear();
    // freed on the thread, since freeing a copy takes a while too
    thread_.add([copy = std::exchange(copy_, nullptr)] {});
}

void Planner::begin_copy() {
    copy_ = std::make_shared<Cluster>();
    copying_ = true;
    next_run_ = {};
    copy_->meta = cluster_.meta;
    copy_->nodes = cluster_.nodes;
    copy_->queues = cluster_.queues;
    copy_->use = cluster_.use;
    copy_->budgets = cluster_.budgets;
    copy_some();
}

void Planner::copy_some() {
    const std::int64_t until_us = monotonic_us() + limits_.slice_us;
    for (auto run = cluster_.runs.lower_bound(next_run_); run != cluster_.runs.end(); ++run) {
        if (!terminal(run->second.state)) copy_run(cluster_, *copy_, without_texts(run->second));
        if (monotonic_us() < until_us) continue;
        next_run_ = {run->first.value + 1};
        return background_.post([this] { copy_some(); });
    }
    copying_ = false;
    begin_next();
}

// Sends the query to the thread, together with the records so far. The thread applies them in order.
void Planner::hand_over(const std::shared_ptr<Question>& question) {
    working_ = true;
    for (const After& after : question->after)
        if (const auto run = cluster_.runs.find(after.run); run != cluster_.runs.end() && terminal(run->second.state))
            question->predecessors.emplace_back(without_texts(run->second));
    thread_.add([this, question, copy = copy_, records = std::exchange(since_, {})] {
        follow(*copy, records);
        Status looked = rtrain::Done{};
        if (!question->over) looked = look_at(*copy, question->work, question->predecessors);
        background_.post([this, question, looked] {
            working_ = false;
            answer(question, looked);
            begin_next();
        });
    });
}

void Planner::answer(const std::shared_ptr<Question>& question, const Status& looked) {
    if (question->over.exchange(true)) return;
    --asked_;
    const auto by = asked_by_.find(question->user);
    if (--by->second == 0) asked_by_.erase(by);
    const auto done = std::exchange(question->done, nullptr);
    done(looked);
    drop_copy_later();
}

}  // namespace rtrain::head
