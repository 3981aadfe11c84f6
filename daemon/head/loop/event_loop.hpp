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
        // Runs right after the decisions, so that indexes agree with the cluster. Without that, two requests could find
        // the same name free.
        std::function<void(const Decisions&)> decided;
        // Returns the tasks that perform these effects. The tasks are called once the changes are durable.
        std::function<std::vector<Task>(const std::vector<Effect>&)> orders;
        // Returns the number of rows outside of the queue that will be added to the newest batch.
        std::function<std::size_t()> rows_elsewhere;
        // Adds those rows to a batch: the effects of news (events, notices, metrics) together with their numbers, which
        // become durable together.
        std::function<void(Pending&)> collect;
        // Runs when the batch is durable, before its effects.
        std::function<void(const Pending&)> saved;
        // Runs after the orders of these decisions were sent; handles ends of runs.
        std::function<void(const Decisions&)> performed;
        // Acknowledges the news that are durable.
        Task acknowledge;
    };

    EventLoop(net::Loop& loop, state::SqliteJournal& journal, const Clock& clock, metrics::Metrics& metrics);
    void connect(Steps steps) { steps_ = std::move(steps); }  // sets the functions; to be called before the first event
    // sets the cluster's id; to be called before the first event
    void name_cluster(const std::string& id) { cluster_.meta.cluster_id = id; }
    const Cluster& cluster() const { return cluster_; }  // the present state; only decisions change it

    // ---- events.cpp: new events
    // `answer` is called when the event is durable and its effects are performed.
    void take(Event event, Answer answer = {});
    void save(Aside aside);
    void note(state::Notice notice) { queue_.newest().add(std::move(notice)); }
    // Decides at the next turn of the loop if the newest batch is full. To be called for news that may wait.
    void decide_when_full();
    // after a pause, commits the news so far with their numbers in one group, and acknowledges them
    void later_acknowledge();
    // ---- commits.cpp: tasks that wait for the disk
    // Runs `task`, an answer about the records, once they are durable. Runs it at once if they are, or while the disk
    // is full.
    void once_durable(Task task);
    // Runs `task` once everything that has arrived is durable, including undecided events. While the disk is full, runs
    // it at once.
    void once_written(Task task);
    bool all_durable() { return queue_.last_decided() == nullptr; }
    bool ended_for_good(const Run& run) const;  // true if the run is terminal, and that is durable
    // Blocks the loop until everything that has arrived is durable. For the end of the head, and for tests. An
    // exception inside ends the process, since decisions would be only partly performed.
    void settle() noexcept;
    // runs `work` on the writer's thread, after all earlier commits and work
    void behind_commits(Task work) { writer_.add(std::move(work)); }
    void fail(Error error);  // stops the loop because of a fatal error
    Status finish();  // called after the loop's end: makes the rest durable; returns the error for which the head ended
    using Why = Durability::Why;
    Why failure() const { return failure_; }  // the error for which the head ends; empty: it does not end
    // Why no change is accepted: the disk of the records is full. Decided changes are written once there is space.
    Why no_room() const { return no_room_; }

  private:
    friend class Auditing;
    // The row of the request that is being answered (auditing.hpp). It is saved with the request's first event, or with
    // the first data that it saves before its answer.
    std::optional<state::AuditRow>* auditing_ = nullptr;

    struct Waiting {
        Event event;
        Answer answer;
        std::int64_t came_us = 0;  // time of the event's arrival, monotonic, in us
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
    void begin_commit();  // commits the oldest batch, unless a commit is under way
    void write();         // writes the batch that is under way
    // after a commit: performs the effects, sends the answers, and starts the next commit
    void committed(const Status& status);
    void wait_for_room(const Error& why);
    void give_up_waiting();  // calls the tasks that wait for changes which will never be durable, with the reason

    void hand_over(Pending durable);  // queues the effects and answers of a durable batch, in order
    // Performs queued tasks for a slice of time. The remaining tasks run later, after other tasks of the loop.
    void perform_some();

    net::Loop& loop_;
    state::SqliteJournal& journal_;
    const Clock& clock_;
    metrics::Metrics& metrics_;
    Cluster cluster_;
    Steps steps_;
    std::vector<Waiting> waiting_;
    CommitQueue queue_;         // changes that are decided and not durable yet
    std::deque<Task> durable_;  // effects and answers of durable changes, which are still to be performed
    std::future<Status> outcome_;
    std::optional<net::Loop::TimerId> wake_timer_;
    bool overdue_ = false;  // true: the time of `wake_timer_` had passed already when it was set
    std::uint64_t commits_ = 0;
    bool decide_posted_ = false, perform_posted_ = false, acknowledging_ = false;
    const std::shared_ptr<std::optional<Error>> failure_ = std::make_shared<std::optional<Error>>();
    const std::shared_ptr<std::optional<Error>> no_room_ = std::make_shared<std::optional<Error>>();
    // the last member, because the thread must end before the members that it uses
    net::WorkThread writer_{net::ThreadPriority::behind_loop};
};

}  // namespace rtrain::head
