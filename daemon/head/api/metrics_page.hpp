// GET /metrics. For thousands of runs its text is megabytes: the records are taken in slices on the loop, and the text
// is made of them by a thread beside it.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/head/sessions/sessions.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/net/loop/work_thread.hpp"
#include "daemon/net/server.hpp"

namespace rtrain::head {

// Makes one page at a time. Who asks while one is made has to wait for the next, which then answers all who wait.
class MetricsPage {
  public:
    struct Uses {
        net::Loop& loop;
        const View& view;
        const Sessions& sessions;
        metrics::Metrics& metrics;
        const UserBytes& bytes;
        std::string data_dir;
    };
    explicit MetricsPage(Uses uses) : uses_(std::move(uses)) {}
    ~MetricsPage() { thread_.stop(); }
    MetricsPage(const MetricsPage&) = delete;
    MetricsPage& operator=(const MetricsPage&) = delete;

    struct Reader {
        std::string user;
        std::shared_ptr<net::Responder> responder;
    };
    // Answers later, on the loop; false: too many wait already, of this user or of all.
    bool request(Reader reader);

  private:
    struct Making;
    void begin();
    void format(const std::shared_ptr<Making>& making);
    void answer(const net::Response& page);

    const Uses uses_;
    std::vector<Reader> waiting_, served_;  // for the next page; by the one that is made
    bool making_ = false;
    net::WorkThread thread_{net::ThreadPriority::behind_loop};  // last: it ends before what it works on
};

}  // namespace rtrain::head
