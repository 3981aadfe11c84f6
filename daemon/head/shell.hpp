// The head's parts, wired around one loop that reads like the flow:
//   take (requests, news, timers) ─► turn: decide each ─► one commit (a thread of its own) ─► perform ─► answer
// Only turn() changes the cluster. It follows right behind the task that took something, and goes on while a commit is
// under way: what it decides meanwhile shares the next. What is durable is performed in slices, so that no decision
// waits for a long one.
// Nothing is performed or answered before its record is durable; when a commit fails, nothing is performed at all and
// the process ends.
#pragma once

#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/head/agents.hpp"
#include "daemon/head/clock.hpp"
#include "daemon/head/commit_queue.hpp"
#include "daemon/head/feeds.hpp"
#include "daemon/head/head.hpp"
#include "daemon/head/identity.hpp"
#include "daemon/head/log_store.hpp"
#include "daemon/head/metrics_page.hpp"
#include "daemon/head/part_uploads.hpp"
#include "daemon/head/planner.hpp"
#include "daemon/head/reports.hpp"
#include "daemon/head/revocation.hpp"
#include "daemon/head/run_names.hpp"
#include "daemon/head/tokens.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/net/loop/work_thread.hpp"
#include "daemon/net/server.hpp"
#include "storage/state/journal.hpp"

namespace rtrain::head {

struct Head {
    using Answer = std::function<void(const Decision&)>;

    Head(HeadOptions options, std::unique_ptr<state::SqliteJournal> journal, Identity identity);
    Status open();  // tokens, settings, cluster id, HeadStarted
    Status listen();
    Status serve();  // until stopped; the reason of a failure

    // The way in. `answer` is called after the event is durable and its effects are performed.
    void take(Event event, Answer answer = {});
    void saw(const Caller& caller);  // somebody was let in
    void fail(Error error);          // fatal: stops the loop
    void later_acknowledge();        // what came becomes durable with its news' numbers, and is acknowledged, grouped
    using Aside = head::Aside;
    void save(Aside aside);
    // The row of the request that is answered just now. The first event that it takes has the row with it, or the first
    // thing that it saves and answers once that is done.
    std::optional<state::AuditRow>* auditing = nullptr;
    // What is told of the records waits until they are durable: runs `task` then; at once when they are, or when there
    // is no room for them.
    void once_durable(std::function<void()> task);
    bool all_durable() { return queue_.last_decided() == nullptr; }
    bool ended_for_good(const Run& run) const;  // it is terminal, and on disk
    // What came is on disk when this returns: before metrics are read. An exception in here ends the head, whoever
    // asks: it would leave half of what was decided undone.
    void settle() noexcept;
    void behind_commits(std::function<void()> work) { writer_.add(std::move(work)); }  // on their thread, in order
    void turn_when_full();  // news came that may wait, but not too many of them
    void note(state::Notice notice) { queue_.newest().add(std::move(notice)); }
    struct ToAcknowledge {
        std::string node;
        protocol::AttemptRef attempt;  // as the agent calls it
        std::uint64_t offset = 0;
    };
    void later_sync_logs(const LogName& name, const ToAcknowledge& to);
    // Log files are written and removed by a thread of their own, in this order; `then` runs on the loop.
    void on_log_thread(std::function<void()> work, net::Loop::Task then);

    std::string run_id(RunId id) const { return run_id_text(cluster.meta.cluster_id, id); }
    std::string blob_path(const std::string& sha256) const { return options.data_dir + "/blobs/" + sha256; }
    std::string scratch_path() const;  // a fresh name under <data>/tmp, safe from any thread

    HeadOptions options;
    std::unique_ptr<state::SqliteJournal> journal;
    Identity identity;
    Clock clock;
    Cluster cluster;  // read by all, changed by turn() alone
    net::Loop loop;
    TokenBook tokens;
    Reports reports;
    LogStore logs;
    Feeds feeds;
    RunNames names;
    // Settings of submissions that orders are made from, "code/<key>" and "any_user/<key>": no order waits for the
    // disk.
    std::map<std::string, std::string> of_submissions;
    Agents agents;
    Planner planner{cluster, loop};
    Revocations revocations{*this};
    PartUploads parts;  // of cluster://
    metrics::Metrics metrics{RTRAIN_VERSION};
    MetricsPage metrics_page{*this};
    std::unique_ptr<net::Server> server;
    std::string storage_warning;  // the storage root does not survive a reboot
    std::string admin_token;      // made by this start, until it was handed over
    std::int64_t started_wall_ms = 0;
    std::size_t connections_max = 1'024;
    const std::shared_ptr<std::optional<Error>> failure = std::make_shared<std::optional<Error>>();  // why it ends
    // The disk of the records is full. What was decided is written once there is room; no change is taken until then.
    const std::shared_ptr<std::optional<Error>> no_room = std::make_shared<std::optional<Error>>();

  private:
    struct Waiting {
        Event event;
        Answer answer;
        std::int64_t came_us = 0;  // monotonic: when it was handed to the loop
        std::optional<state::AuditRow> audit{};
    };
    Status open_all();
    void remember(const std::string& setting, const std::string& value);  // of those that are kept in memory
    Status make_admin_token();
    std::optional<state::AuditRow> taken_audit();
    void add_audit(std::optional<state::AuditRow> row, const Decision& decision);
    void post_turn();
    void turn();
    void decide_waiting();
    void note_records(const Turn& turn);  // what people look up; at once
    void collect(Pending& batch);
    void begin_commit();                   // of the oldest batch, unless one is under way
    void write();                          // the batch that is under way
    void committed(const Status& status);  // that was under way: performs, answers, goes on
    void wait_for_room(const Error& why);
    void hand_over(Pending durable);       // what it asks for is queued, in order
    void perform_some();                   // of the queue, for a slice of time; the rest behind what has come since
    void after_records(const Turn& turn);  // what ends or goes with a run: secrets, tokens, logs
    void acknowledge();
    void recall_reports();
    void give_up_waiting();  // who waits for what will never be durable is told why
    void wake();
    using Unsynced = std::map<LogName, ToAcknowledge>;
    void sync_logs();
    void logs_synced(const Unsynced& batch, const Status& synced);
    void look_for_tokens();  // that were made on this machine
    void tidy_up();          // at the start and daily: old events, logs and blobs
    void sweep();            // daily: the same, and a fresh leaf

    std::vector<Waiting> waiting_;
    CommitQueue queue_;                    // decided, not yet durable
    std::deque<net::Loop::Task> durable_;  // to be performed
    std::future<Status> outcome_;
    std::optional<net::Loop::TimerId> wake_timer_;
    Unsynced unsynced_;
    std::string unused_admin_;  // id of the admin token that nobody has come in with yet
    std::uint64_t commits_ = 0;
    bool turn_posted_ = false, perform_posted_ = false, acknowledging_ = false, syncing_ = false;
    net::WorkThread log_writer_{net::ThreadPriority::behind_loop};
    net::WorkThread writer_{net::ThreadPriority::behind_loop};  // last: it ends before what it writes from
};

// The side files of a run that are no records: code archive's hash, secrets' values (0600, gone when the run ends),
// whether it may go on from anybody's files.
struct SubmissionFiles {
    std::string code_sha256, secrets_json;
    bool for_any_user = false;
    static Status save(Head& head, const std::string& key, const SubmissionFiles& files);
    static std::string code(const Head& head, const std::string& key);
    static bool any_user(const Head& head, const std::string& key);  // an admin submitted it
    static std::map<std::string, std::string> secrets(const Head& head, const Run& run);
    static void forget_secrets(const Head& head, const Run& run);
};

std::string result_json(const Head& head, const Run& run);  // result.json of an ended run

Status know_blob_users(Head& head);  // the same: whose the blobs are that came before this was remembered
void let_use_blobs(Head& head, const std::string& job_json, const std::string& code_sha256, const std::string& user);
void collect_blobs(Head& head);  // collection.cpp: blobs and settings that no run needs any more

// Writes result.json of a cluster:// run below the storage root; the log says when it cannot.
void write_own_result(Head& head, const std::string& run_name, const std::string& text);

}  // namespace rtrain::head
