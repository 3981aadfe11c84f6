// Answers GET /metrics. The text may have megabytes, so the loop copies the records in slices, and a thread beside the
// loop makes the text.
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

// Makes one page at a time. Requests that arrive meanwhile wait for the next page, which answers all of them.
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
    // Adds a reader, who gets the page later, on the loop. Returns false if too many readers wait already, of this user
    // or of all users.
    bool request(Reader reader);

  private:
    struct Making;
    void begin();
    void format(const std::shared_ptr<Making>& making);
    void answer(const net::Response& page);

    const Uses uses_;
    // `waiting_`: readers of the next page; `served_`: readers of the page that is being made
    std::vector<Reader> waiting_, served_;
    bool making_ = false;
    net::WorkThread thread_{
        net::ThreadPriority::behind_loop};  // the last member, so that the thread ends before the data that it uses
};

}  // namespace rtrain::head
