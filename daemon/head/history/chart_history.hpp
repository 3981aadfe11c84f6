// Draws charts from stored levels of runs' reports and of nodes' and ranks' usage. A separate thread writes and reads
// the levels. The loop only passes runs with new reports, heartbeats and requests to it.
//
//   loop                                   thread
//   reported(run) ──► runs with news ──►   reads their rows from state.db, adds them to the levels
//   heard(...) ─────► heartbeats ──────►   adds samples
//   of_*(...) ──────► requests ────────►   adds the run's news, reads a level, makes the text ──► `then` on the loop
//                                          every 5 s: writes what is due, drops unused levels from memory
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "daemon/head/history/cluster_use.hpp"
#include "daemon/head/history/usage.hpp"
#include "daemon/net/loop/loop.hpp"
#include "daemon/net/loop/work_thread.hpp"
#include "scheduler/index/cluster.hpp"
#include "storage/history/levels.hpp"

namespace rtrain::head {

class ChartHistory {
  public:
    ChartHistory(net::Loop& loop, std::string data_dir);
    ~ChartHistory();
    ChartHistory(const ChartHistory&) = delete;
    ChartHistory& operator=(const ChartHistory&) = delete;

    // Opens the file and catches up with the reports of these runs, on the thread. If the file cannot be opened, the
    // error is logged and becomes the answer of all queries.
    void open(const Cluster& cluster);
    void finish();  // writes the unwritten data; waits for some seconds at most

    void reported(RunId run);  // to be called when rows of the run are durable
    void heard(HeardHeartbeat heartbeat);
    // passes a sample of the whole cluster; to be called at most four times a minute
    void counted(const ClusterCounts& counts);
    void forget(RunId run);

    struct Question {
        std::string subject, key;  // `subject` and `key` of the chart; without a key the answer is the list of keys
        history::Window window;    // the samples to show; `last` 0: up to the newest
        std::string head;          // members of the answer that name its subject, as JSON text
    };
    using Then = std::function<void(Result<std::string>)>;  // receives the JSON text of the answer; called on the loop
    // Queues a query. Returns false if too many queries wait; then `then` is never called.
    bool of_run(RunId run, Question question, Then then);
    bool of_usage(Question question, Then then);
    // queues a query for each rank below `ranks`
    bool of_ranks(RunId run, std::uint32_t ranks, Question question, Then then);

  private:
    struct Work;   // the data that only the thread uses
    void begin();  // passes the new data on, unless the thread is still busy with the earlier data
    void hand_over();
    void upkeep();
    bool enqueue(std::function<Result<std::string>(Work&)> answer, Then then);

    net::Loop& loop_;
    const std::string data_dir_;
    const std::shared_ptr<Work> work_;
    std::set<RunId> reported_;
    std::vector<HeardHeartbeat> heard_;
    std::uint64_t dropped_ = 0;  // number of heartbeats that were dropped, because the queue was full
    std::size_t questions_ = 0;  // number of queries that are not answered yet
    bool begun_ = false, waiting_ = false;
    // the last member, because the thread must end before the members that it uses
    net::WorkThread thread_{net::ThreadPriority::behind_loop};
};

}  // namespace rtrain::head
