// Sends spans to an OTLP/HTTP endpoint, by a thread of its own. The queue is bounded: where the endpoint does not
// answer, spans are dropped and counted, and nothing else of the head notices.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "daemon/head/traces/otlp.hpp"
#include "daemon/head/traces/settings.hpp"
#include "daemon/metrics/metrics.hpp"
#include "daemon/net/loop/loop.hpp"
#include "daemon/net/loop/work_thread.hpp"

namespace rtrain::head {

class TraceExporter {
  public:
    TraceExporter(net::Loop& loop, metrics::Metrics& metrics, TraceSettings settings);
    ~TraceExporter();
    TraceExporter(const TraceExporter&) = delete;
    TraceExporter& operator=(const TraceExporter&) = delete;

    void open(TraceSource source) { source_ = std::move(source); }  // before the first span
    void add(std::vector<Span> spans);
    void finish();  // sends what waits, for some seconds at most; after the loop has ended

  private:
    struct Sender;  // what the thread alone has
    struct Outcome {
        std::string trouble;  // empty: they were taken
        bool again = false;   // trying once more may help
    };
    void begin_later(std::int64_t delay_ms);
    void begin();
    void done(const Outcome& outcome);
    void drop(std::size_t count, const std::string& why);
    std::vector<Span> next_batch();

    net::Loop& loop_;
    metrics::Metrics& metrics_;
    TraceSource source_;
    const std::string shown_;  // the endpoint, for people
    std::deque<Span> queue_;
    std::vector<Span> sending_;  // the thread has them, or they wait for another try
    int tries_ = 0;
    bool waiting_ = false, complained_ = false;
    std::shared_ptr<Sender> sender_;
    net::WorkThread thread_{net::ThreadPriority::behind_loop};  // last: it ends before what it works on
};

}  // namespace rtrain::head
