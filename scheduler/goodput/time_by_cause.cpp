// See time_by_cause.hpp. A cursor moves along the run's attempts. Each step assigns a cause to the time that it passes.
#include "scheduler/goodput/time_by_cause.hpp"

#include <algorithm>

namespace rtrain {
namespace {

// Returns the cause of the time between the end of an attempt's work and the end of the attempt, in which its nodes
// become empty.
TimeCause cause_of_ending(const Attempt& attempt) {
    const AttemptState as = terminal(attempt.state) ? attempt.state : attempt.end_as;
    // the time until the last checkpoint of the run is stored
    if (as == AttemptState::succeeded) return TimeCause::checkpoint;
    return as == AttemptState::stopped ? TimeCause::schedule : TimeCause::detect;
}

class Walk {
  public:
    Walk(const Run& run, Time now)
        : at_(run.submitted), end_(std::max(run.submitted, terminal(run.state) ? run.ended : now)) {}

    void to_end(TimeCause cause) { advance(cause, end_); }
    void over(const Attempt& attempt, const RankWaits& waits);
    TimeByCause result() const { return time_; }

  private:
    void advance(TimeCause cause, Time until) {
        const Time next = std::clamp(until, at_, end_);
        time_.ms(cause) += (next - at_).ms;
        at_ = next;
    }
    void start(const Attempt& attempt, Time until);
    void train(const Attempt& attempt, Time until, const RankWaits& waits);

    Time at_;
    const Time end_;
    TimeByCause time_;
    bool placed_ = false;
    Duration done_;  // the greatest amount of work, in worker-time, that an attempt of the run has reached
};

// After all nodes are prepared, an attempt that starts from a checkpoint downloads it and launches its workers.
void Walk::start(const Attempt& attempt, Time until) {
    if (attempt.prepared_at.ms != 0 && !attempt.from.empty()) {
        advance(TimeCause::start, std::min(attempt.prepared_at, until));
        advance(TimeCause::restore, until);
    }
    advance(TimeCause::start, until);
}

// Divides the time in which the workers ran: first the repeated work, then the waits. How many of the waits fell into
// the repeated work is unknown, so the same fraction as in the rest is assumed.
void Walk::train(const Attempt& attempt, Time until, const RankWaits& waits) {
    const Duration whole = std::clamp(until, at_, end_) - at_;
    at_ = {at_.ms + whole.ms};
    const auto workers = static_cast<std::int64_t>(std::max<std::size_t>(attempt.workers.size(), 1));
    const std::int64_t behind = std::max<std::int64_t>(0, done_.ms - attempt.work_before.ms);
    const std::int64_t again = std::min(whole.ms, behind / workers + (behind % workers > 0 ? 1 : 0));
    done_ = {std::max(done_.ms, attempt.work_before.ms + whole.ms * workers)};

    std::int64_t left = whole.ms - again;
    const double share = whole.ms > 0 ? static_cast<double>(left) / static_cast<double>(whole.ms) : 0;
    const auto take = [&](TimeCause cause, Duration waited) {
        const auto part = static_cast<std::int64_t>(static_cast<double>(waited.ms) * share);
        const std::int64_t taken = std::clamp<std::int64_t>(part, 0, left);
        time_.ms(cause) += taken;
        left -= taken;
    };
    time_.ms(TimeCause::replay) += again;
    take(TimeCause::checkpoint, waits.checkpoint);
    take(TimeCause::data, waits.data);
    take(TimeCause::straggler, waits.straggler);
    time_.ms(TimeCause::productive) += left;
}

void Walk::over(const Attempt& attempt, const RankWaits& waits) {
    advance(placed_ ? TimeCause::schedule : TimeCause::queue, attempt.placed_at);
    placed_ = true;
    const Time ended = attempt.ended_at.ms != 0 ? attempt.ended_at : end_;
    const Time work_ended = attempt.work_ended.ms != 0 ? attempt.work_ended : ended;
    if (attempt.started_at.ms == 0) {
        start(attempt, work_ended);
    } else {
        start(attempt, attempt.started_at);
        train(attempt, work_ended, waits);
    }
    advance(cause_of_ending(attempt), ended);
}

}  // namespace

const char* to_text(TimeCause cause) {
    switch (cause) {
        case TimeCause::queue:
            return "queue";
        case TimeCause::detect:
            return "detect";
        case TimeCause::schedule:
            return "schedule";
        case TimeCause::start:
            return "start";
        case TimeCause::restore:
            return "restore";
        case TimeCause::replay:
            return "replay";
        case TimeCause::checkpoint:
            return "checkpoint";
        case TimeCause::data:
            return "data";
        case TimeCause::straggler:
            return "straggler";
        case TimeCause::productive:
            return "productive";
    }
    return "";
}

double TimeByCause::goodput() const {
    const std::int64_t since_placed = wall().ms - (*this)[TimeCause::queue].ms;
    if (since_placed <= 0) return 0;
    return static_cast<double>((*this)[TimeCause::productive].ms) / static_cast<double>(since_placed);
}

TimeByCause time_by_cause(const Cluster& cluster, const Run& run, Time now, const WaitsOf& waits_of) {
    Walk walk(run, now);
    bool placed = false;
    for (auto at = cluster.attempts.lower_bound({.run = run.id, .number = 0});
         at != cluster.attempts.end() && at->first.run == run.id; ++at) {
        walk.over(at->second, waits_of ? waits_of(at->first) : RankWaits{});
        placed = true;
    }
    walk.to_end(placed ? TimeCause::schedule : TimeCause::queue);
    return walk.result();
}

}  // namespace rtrain
