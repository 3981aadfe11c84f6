// The loop around the core, in the order in which it happens:
//   take (events.cpp) ─► decide each (decide.cpp) ─► one commit (commits.cpp) ─► perform, answer (effects.cpp)
// Only `decide_and_commit` changes the cluster. It runs right after the task that took an event, also while a commit is
// under way: its decisions then share the next commit. The effects of durable changes are performed in slices, so that
// no decision waits for a long one. No effect is performed and no answer is sent before its record is durable. When a
// commit fails, none is performed, and the process ends.
#pragma once

#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/head/base/clock.hpp"
#include "daemon/head/loop/commit_queue.hpp"
#include "daemon/head/loop/durability.hpp"
#include "daemon/head/loop/intake.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/net/loop/loop.hpp"
#include "daemon/net/loop/work_thread.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

class EventLoop {
  public:
    using Answer = Intake::Answer;
    using Task = std::function<void()>;

    // The functions that other parts of the head run for each batch, in the order of the steps.
    struct Steps {
        // Runs right after the decisions, so that lookups agree with the cluster: two requests never find the same name
        // free.
        std::function<void(const Decisions&)> decided;
        // Returns the tasks that perform the effects, to be called once the changes are durable.
        std::function<std::vector<Task>(const std::vector<Effect>&)> orders;
        // Returns the number of rows outside of the queue that belong to the newest batch.
        std::function<std::size_t()> rows_elsewhere;
        // Adds these rows: the effects of news (events, notices, metrics) and their numbers, which become durable
        // together.
        std::function<void(Pending&)> collect;
        // Runs when the batch is durable, before its effects.
        std::function<void(const Pending&)> saved;
        // Runs after the orders of these decisions, for the ends of runs.
        std::function<void(const Decisions&)> performed;
        // Acknowledges the news that are durable.
        Task acknowledge;
    };

    EventLoop(net::Loop& loop, state::SqliteJournal& journal, const Clock& clock, metrics::Metrics& metrics);
    void connect(Steps steps) { steps_ = std::move(steps); }                     // before the first event
    void name_cluster(const std::string& id) { cluster_.meta.cluster_id = id; }  // before the first event
    const Cluster& cluster() const { return cluster_; }                          // only decisions change it

    // ---- events.cpp: new events
    // `answer` is called when the event is durable and its effects are performed.
    void take(Event event, Answer answer = {});
    void save(Aside aside);
    void note(state::Notice notice) { queue_.newest().add(std::move(notice)); }
    // Decides at the next turn of the loop if the queue is full; called for news that may wait.
    void decide_when_full();
    void later_acknowledge();  // commits news with their numbers after a pause, in one group, and acknowledges them
    // ---- commits.cpp: tasks that wait for the disk
    // Runs `task`, an answer about the records, once they are durable. Runs it at once if they are, or while the disk
    // is full.
    void once_durable(Task task);
    // Runs `task` once all that has arrived is durable, including undecided events. Runs it at once while the disk is
    // full.
    void once_written(Task task);
    bool all_durable() { return queue_.last_decided() == nullptr; }
    bool ended_for_good(const Run& run) const;  // it is terminal, and durable
    // Blocks the loop until all that has arrived is durable. For the end of the head, and for tests. An exception
    // inside ends the head, since decisions would be only partly performed.
    void settle() noexcept;
    void behind_commits(Task work) { writer_.add(std::move(work)); }  // on the writer's thread, in order
    void fail(Error error);                                           // fatal: stops the loop
    Status finish();  // after the loop's end: makes the rest durable; an Error is the reason for which the head ended
    using Why = Durability::Why;
    Why failure() const { return failure_; }  // why it ends
    // Why the disk of the records is full. Decided changes are written once there is space; no new change is accepted
    // until then.
    Why no_room() const { return no_room_; }

  private:
    friend class Auditing;
    // The row of the request that is being answered (auditing.hpp). It is saved with the request's first event, or with
    // the first data that it saves before its answer.
    std::optional<state::AuditRow>* auditing_ = nullptr;

    struct Waiting {
        Event event;
        Answer answer;
        std::int64_t came_us = 0;  // monotonic time of its arrival
        std::optional<state::AuditRow> audit{};
    };
    std::optional<state::AuditRow> taken_audit();
    void post_decide();
    void acknowledge();

    void decide_and_commit();
    void decide_waiting();
    void add_audit(std::optional<state::AuditRow> row, const Decision& decision);
    void wake();

    bool full() const { return queue_.full(steps_.rows_elsewhere()); }
    void collect(Pending& batch);
    void begin_commit();                   // commits the oldest batch, unless a commit is under way
    void write();                          // the batch that is under way
    void committed(const Status& status);  // performs, answers and continues after the commit
    void wait_for_room(const Error& why);
    void give_up_waiting();  // gives the reason to all tasks that wait for changes that will never be durable

    void hand_over(Pending durable);  // queues its effects and answers, in order
    // Performs queued tasks for a slice of time; the rest runs after newer tasks of the loop.
    void perform_some();

    net::Loop& loop_;
    state::SqliteJournal& journal_;
    const Clock& clock_;
    metrics::Metrics& metrics_;
    Cluster cluster_;
    Steps steps_;
    std::vector<Waiting> waiting_;
    CommitQueue queue_;         // decided, not yet durable
    std::deque<Task> durable_;  // effects and answers to perform
    std::future<Status> outcome_;
    std::optional<net::Loop::TimerId> wake_timer_;
    bool overdue_ = false;  // `wake_timer_` is for a time that had passed when it was set
    std::uint64_t commits_ = 0;
    bool decide_posted_ = false, perform_posted_ = false, acknowledging_ = false;
    const std::shared_ptr<std::optional<Error>> failure_ = std::make_shared<std::optional<Error>>();
    const std::shared_ptr<std::optional<Error>> no_room_ = std::make_shared<std::optional<Error>>();
    net::WorkThread writer_{net::ThreadPriority::behind_loop};  // last: it must end before the members that it uses
};

}  // namespace rtrain::head
