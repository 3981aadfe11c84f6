// Answers "what if this were submitted?" and "why does it wait?" on another thread. A plan decides and explains on a
// copy of the cluster. For thousands of waiting runs that takes some tenths of a second, for which the loop would stand
// still.
//
//  first query ─► the loop copies the needed records, in slices ─┐
//  each decision ─► its records, until the next query ───────────┴─► the planner's thread: apply them, plan
//
// The records of a decision are the changes of `decide`. So the copy equals the cluster at the query, although the
// cluster changes while it is copied: records that were copied late are newer, and applying the same records again
// gives the same result. The copy is kept for a minute after the last query. One query runs at a time; users alternate.
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
    std::int64_t slice_us = 2'000;      // us; duration of one slice of copying, before the loop runs other tasks
    std::int64_t deadline_ms = 15'000;  // ms; time limit of a query, including its wait
    std::int64_t kept_ms = 60'000;      // ms for which the copy is kept after the last query
    std::size_t questions = 32;         // the most queries that wait
    std::size_t questions_of_user = 8;
};

class Planner {
  public:
    using Then = std::function<void(Result<Plan>)>;
    using Work =
        // runs on the planner's thread; the copy has no ended runs, and must be left unchanged
        std::function<void(Cluster& copy)>;
    using Done = std::function<void(const Status&)>;
    Planner(const Cluster& cluster, net::Background background, PlannerLimits limits = {});
    ~Planner();
    Planner(const Planner&) = delete;
    Planner& operator=(const Planner&) = delete;

    // Plans a submission. Calls `then` once, on the loop: with the plan, or with the error `unreachable` if too many
    // queries wait or the time is over.
    void plan(Time now, RunSubmitted event, Then then);
    // Runs `work` on the planner's thread, and then calls `done` once, on the loop. If `done` gets an error, `work` may
    // still be running.
    void look(const std::string& user, Work work, Done done, const std::vector<After>& after = {});
    void saw(const Decisions& decisions);  // to be called for each decision
    bool keeps_copy() const { return copy_ != nullptr; }

  private:
    struct Question {
        std::string user;
        Work work;
        Done done;
        // runs that the query depends on; for this query, the copy gets the records of those that ended
        std::vector<After> after;
        std::vector<Record> predecessors;  // records of those of them that have ended
        std::atomic<bool> over = false;    // true: the query was answered
    };
    using Questions = std::deque<std::shared_ptr<Question>>;
    using Records = std::vector<Record>;
    void begin_copy();
    void copy_some();
    void begin_next();  // starts the next query, unless one runs
    void hand_over(const std::shared_ptr<Question>& question);
    void answer(const std::shared_ptr<Question>& question, const Status& looked);
    void drop_copy();
    void drop_copy_later();

    const Cluster& cluster_;
    const net::Background background_;
    const PlannerLimits limits_;
    std::shared_ptr<Cluster> copy_;  // belongs to the loop while it is filled, and then to the planner's thread alone
    bool copying_ = false;
    RunId next_run_{};                          // the run with which the next slice of copying begins
    Records since_;                             // records of decisions that the copy does not contain yet
    std::map<std::string, Questions> waiting_;  // key: the user; value: the user's waiting queries
    std::string last_user_;                     // user of the last started query
    bool working_ = false;
    std::size_t asked_ = 0;  // number of queries that are not answered yet
    std::map<std::string, std::size_t> asked_by_;
    std::int64_t last_asked_us_ = 0;
    bool drop_is_due_ = false;  // true: a timer is set that may drop the copy
    // the last member, because the thread must end before the members that it uses
    net::WorkThread thread_{net::ThreadPriority::behind_loop};
};

}  // namespace rtrain::head
