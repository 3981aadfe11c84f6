// "What if I submitted this?", and "why does it wait?", answered beside the loop. A plan decides and explains on a copy
// of the cluster, which for thousands of waiting runs takes some tenths of a second: the loop would stand still for so
// long.
//
//   first question ─► the loop copies what counts, in slices ─┐
//   each decision ─► its records, until the next question ────┴─► the planner's thread: apply them, look ─► the loop
//
// The records of a decision are what `decide` changed, so the copy is the cluster as it was at the question, although
// the cluster goes on while it is copied: what was copied late is newer, and the same records make it so once more. The
// copy stays for a minute behind the last question. One question is worked on at a time; users alternate.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/head/events/decisions.hpp"
#include "daemon/net/loop/background.hpp"
#include "daemon/net/loop/work_thread.hpp"
#include "scheduler/plan.hpp"

namespace rtrain::head {

struct PlannerLimits {
    std::int64_t slice_us = 2'000;      // the loop copies for so long, before it goes on with other tasks
    std::int64_t deadline_ms = 15'000;  // of a question, with its wait behind others
    std::int64_t kept_ms = 60'000;      // the copy, behind the last question
    std::size_t questions = 32;         // at a time
    std::size_t questions_of_user = 8;
};

class Planner {
  public:
    using Then = std::function<void(Result<Plan>)>;
    using Work =
        std::function<void(Cluster& copy)>;  // it has no runs that have ended; it is as before when this returns
    using Done = std::function<void(const Status&)>;
    Planner(const Cluster& cluster, net::Background background, PlannerLimits limits = {});
    ~Planner();
    Planner(const Planner&) = delete;
    Planner& operator=(const Planner&) = delete;

    // Calls `then` on the loop, once: the plan, or Error{unreachable} when too many questions wait or the time is over.
    void plan(Time now, RunSubmitted event, Then then);
    // Runs `work` on the planner's thread, and calls `done` on the loop, once. Done with an error, work may still run.
    void look(const std::string& user, Work work, Done done, const std::vector<After>& after = {});
    void saw(const Decisions& decisions);  // each one, when it has been decided
    bool keeps_copy() const { return copy_ != nullptr; }

  private:
    struct Question {
        std::string user;
        Work work;
        Done done;
        std::vector<After> after;          // what it asks about may have ended; the copy has it then for this question
        std::vector<Record> predecessors;  // those that have
        std::atomic<bool> over = false;    // it was answered
    };
    using Questions = std::deque<std::shared_ptr<Question>>;
    using Records = std::vector<Record>;
    void begin_copy();
    void copy_some();
    void begin_next();  // question, unless one is being worked on
    void hand_over(const std::shared_ptr<Question>& question);
    void answer(const std::shared_ptr<Question>& question, const Status& looked);
    void drop_copy();
    void drop_copy_later();

    const Cluster& cluster_;
    const net::Background background_;
    const PlannerLimits limits_;
    std::shared_ptr<Cluster> copy_;  // of the loop while it is copied to, and then of the planner's thread alone
    bool copying_ = false;
    RunId next_run_{};                          // to be copied
    Records since_;                             // that the copy has not yet
    std::map<std::string, Questions> waiting_;  // by user
    std::string last_user_;                     // whose question was handed over last
    bool working_ = false;
    std::size_t asked_ = 0;  // not answered yet
    std::map<std::string, std::size_t> asked_by_;
    std::int64_t last_asked_us_ = 0;
    bool drop_is_due_ = false;                                  // a timer runs
    net::WorkThread thread_{net::ThreadPriority::behind_loop};  // last: it ends before what it works on
};

}  // namespace rtrain::head
