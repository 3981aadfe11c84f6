// The parts of the head: how they are connected, and the functions that each of them runs at a step of the event loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "daemon/head/access/credentials.hpp"
#include "daemon/head/access/first_admin.hpp"
#include "daemon/head/access/identity.hpp"
#include "daemon/head/access/ownership.hpp"
#include "daemon/head/access/revocation.hpp"
#include "daemon/head/api/metrics_page.hpp"
#include "daemon/head/autoscale/autoscaler.hpp"
#include "daemon/head/base/disk_reserve.hpp"
#include "daemon/head/base/facts.hpp"
#include "daemon/head/base/run_locks.hpp"
#include "daemon/head/files/blobs.hpp"
#include "daemon/head/files/part_uploads.hpp"
#include "daemon/head/files/stored_files.hpp"
#include "daemon/head/files/submissions.hpp"
#include "daemon/head/history/chart_history.hpp"
#include "daemon/head/listening.hpp"
#include "daemon/head/logs/log_answers.hpp"
#include "daemon/head/logs/log_intake.hpp"
#include "daemon/head/loop/event_loop.hpp"
#include "daemon/head/loop/feeds.hpp"
#include "daemon/head/loop/planner.hpp"
#include "daemon/head/routes/api.hpp"
#include "daemon/head/sessions/order_sender.hpp"
#include "daemon/head/traces/exporter.hpp"

namespace rtrain::head {

class Head {
  public:
    struct Opened {
        HeadOptions options;
        std::unique_ptr<state::SqliteJournal> journal;
        Identity identity;
        TraceSettings traces;
        DiskReserve& reserve;  // the reserve of the data directory's disk
    };
    explicit Head(Opened opened);
    Status open();                               // loads tokens, settings and the cluster's id, and opens the parts
    Status listen(std::size_t connections_max);  // begins to listen; `connections_max`: the most connections at a time
    Result<HeadListening> announce();  // returns the facts for the program that started the head, with a new join token
    // Sends the first events to the core: the queues if they were given, and the head's start. Then calls `ready`.
    void begin(const std::optional<QuarantinePolicy>& quarantine, std::function<void()> ready);
    Status serve();  // runs the loop until the head is stopped; an Error is the reason of a failure

  private:
    Status open_all();
    Result<std::string> name_cluster();
    Status open_browser_sessions();
    void connect();  // sets the functions that the parts run at each step of the event loop
    void follow(const Decisions& decisions);
    void after(const Decisions& decisions);
    void end_at_limit(const Decisions& decisions);
    void collect(Pending& batch);
    void saved(const Pending& batch);
    void forget_waits(RunId run);

    // ---- keeping.cpp: the stored data of each user
    Status count_kept();  // counts each user's stored bytes; called at the start
    void count_rows();    // counts the rows of events and audit for each user's stored bytes
    void count_values();
    void look_at_disk();  // called each second: compares the free space with the reserve
    // ---- upkeep.cpp
    void send_alive();       // sends a sign of life to the starter, which ends a head that hangs
    void look_for_tokens();  // reads tokens that were made on this machine
    void log_audit_end();    // called each hour: writes the audit's newest hash to standard error
    void archive_audit();    // called each minute: moves old audit rows into files, on another thread
    void tidy_up();          // called at the start and each day: removes old events, logs and blobs
    void sweep();            // called each day: tidies up, and makes a new leaf certificate
    void sweep_later();
    void measure_use();  // called four times a minute: adds the use of the cluster and the head's health to the charts
    // called each minute: measures the storage root's disk, on another thread, since it may hang
    void measure_storage();
    void release_node(const std::string& node);  // removes a node from the cluster after its machine was given back

    HeadOptions options_;
    HeadFacts facts_;
    const std::unique_ptr<state::SqliteJournal> journal_;
    Identity identity_;
    metrics::Metrics metrics_{RTRAIN_VERSION};
    net::Loop loop_;
    const HeadStop stop_{[this] { loop_.stop(); }};
    Clock clock_;
    UserBytes bytes_;
    DiskReserve& reserve_;
    EventLoop events_;
    RunNames names_;
    Reports reports_;
    Waits waits_;
    const View view_;
    Feeds feeds_;
    Planner planner_;
    ChartHistory history_;
    LogIntake logs_;
    LogAnswers log_answers_;
    Submissions submissions_;
    Blobs blobs_;
    RunLocks value_locks_;      // locks of runs, for values that change which checkpoints are kept
    PartUploads part_uploads_;  // uploads in pieces to cluster://
    StoredFiles stored_;
    TokenBook tokens_;
    BrowserSessions browser_sessions_;
    Credentials credentials_;
    FirstAdmin first_admin_;
    Revocations revocations_;
    Ownership ownership_;
    std::optional<RunSpans> spans_;  // set if traces are enabled, together with the exporter
    std::optional<TraceExporter> traces_;
    NewsInbox news_;
    Sessions sessions_;
    OrderSender orders_;
    MetricsPage metrics_page_;
    Autoscaler autoscaler_;
    Api api_;
    std::unique_ptr<net::Server> server_;
};

}  // namespace rtrain::head
