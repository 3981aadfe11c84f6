// The loop around the core, in the order in which it happens:
//   take (events.cpp) ─► decide each (decide.cpp) ─► one commit (commits.cpp) ─► perform, answer (effects.cpp)
// Only `decide_and_commit` changes the cluster. It follows right behind the task that took an event, and goes on while
// a commit is under way: what it decides meanwhile shares the next. What is durable is performed in slices, so that no
// decision waits for a long one. Nothing is performed or answered before its record is durable; when a commit fails,
// nothing is performed at all and the process ends.
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

    // What the other parts of the head do at each step of a batch. Named in the order of the steps.
    struct Steps {
        // Events were decided; at once. What people look up follows the cluster: two requests never find one name free.
        std::function<void(const Decisions&)> decided;
        // What carries effects out, to be called once they are durable.
        std::function<std::vector<Task>(const std::vector<Effect>&)> orders;
        // Rows that lie elsewhere and go with the newest batch.
        std::function<std::size_t()> rows_elsewhere;
        // Adds them: what news meant (events, notices, metrics) and their numbers become durable together.
        std::function<void(Pending&)> collect;
        // The batch is on disk, and nothing of it was performed.
        std::function<void(const Pending&)> saved;
        // The orders of these decisions are out: what ends or goes with a run.
        std::function<void(const Decisions&)> performed;
        // News that are durable by now are acknowledged.
        Task acknowledge;
    };

    EventLoop(net::Loop& loop, state::SqliteJournal& journal, const Clock& clock, metrics::Metrics& metrics);
    void connect(Steps steps) { steps_ = std::move(steps); }                     // before the first event
    void name_cluster(const std::string& id) { cluster_.meta.cluster_id = id; }  // before the first event
    const Cluster& cluster() const { return cluster_; }                          // changed by decisions alone

    // ---- events.cpp: the way in
    void take(Event event, Answer answer = {});  // `answer` is called when the event is durable and its effects are out
    void save(Aside aside);
    void note(state::Notice notice) { queue_.newest().add(std::move(notice)); }
    void decide_when_full();   // news came that may wait, but not too many of them
    void later_acknowledge();  // what came becomes durable with its news' numbers, and is acknowledged, grouped
    // ---- commits.cpp: what waits for the disk
    // An answer about the records waits until they are durable: runs `task` then; at once when they are, or when there
    // is no room for them.
    void once_durable(Task task);
    // Runs `task` once all that came is on disk, undecided events and rows without a turn too; at once while there is
    // no room for it.
    void once_written(Task task);
    bool all_durable() { return queue_.last_decided() == nullptr; }
    bool ended_for_good(const Run& run) const;  // it is terminal, and on disk
    // Blocks the loop until what came is on disk: for the end of the head, and tests. An exception in here ends the
    // head, whoever asks: it would leave half of what was decided undone.
    void settle() noexcept;
    void behind_commits(Task work) { writer_.add(std::move(work)); }  // on their thread, in order
    void fail(Error error);                                           // fatal: stops the loop
    Status finish();  // after the loop has ended: makes durable what came; an Error: why the head ended
    using Why = Durability::Why;
    Why failure() const { return failure_; }  // why it ends
    // The disk of the records is full. What was decided is written once there is room; no change is taken until then.
    Why no_room() const { return no_room_; }

  private:
    friend class Auditing;
    // The row of the request that is answered just now (auditing.hpp). The first event that it takes has the row with
    // it, or the first thing that it saves and answers once that is done.
    std::optional<state::AuditRow>* auditing_ = nullptr;

    struct Waiting {
        Event event;
        Answer answer;
        std::int64_t came_us = 0;  // monotonic: when it was handed to the loop
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
    void begin_commit();                   // of the oldest batch, unless one is under way
    void write();                          // the batch that is under way
    void committed(const Status& status);  // that was under way: performs, answers, goes on
    void wait_for_room(const Error& why);
    void give_up_waiting();  // who waits for what will never be durable gets the reason

    void hand_over(Pending durable);  // what it asks for is queued, in order
    void perform_some();              // of the queue, for a slice of time; the rest behind what has come since

    net::Loop& loop_;
    state::SqliteJournal& journal_;
    const Clock& clock_;
    metrics::Metrics& metrics_;
    Cluster cluster_;
    Steps steps_;
    std::vector<Waiting> waiting_;
    CommitQueue queue_;         // decided, not yet durable
    std::deque<Task> durable_;  // to be performed
    std::future<Status> outcome_;
    std::optional<net::Loop::TimerId> wake_timer_;
    bool overdue_ = false;  // `wake_timer_` is for what was due when it was set
    std::uint64_t commits_ = 0;
    bool decide_posted_ = false, perform_posted_ = false, acknowledging_ = false;
    const std::shared_ptr<std::optional<Error>> failure_ = std::make_shared<std::optional<Error>>();
    const std::shared_ptr<std::optional<Error>> no_room_ = std::make_shared<std::optional<Error>>();
    net::WorkThread writer_{net::ThreadPriority::behind_loop};  // last: it ends before what it writes from
};

}  // namespace rtrain::head
