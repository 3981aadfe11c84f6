// Sends spans to an OTLP/HTTP endpoint on a separate thread. The queue is bounded. If the endpoint does not answer,
// spans are dropped and counted, without any other effect on the head.
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

    // sets id and name of the cluster, which each request contains; to be called before the first span
    void open(TraceSource source) { source_ = std::move(source); }
    void add(std::vector<Span> spans);
    void finish();  // sends the remaining spans within some seconds; to be called after the loop has ended

  private:
    struct Sender;  // the data that only the thread uses
    struct Outcome {
        std::string trouble;  // why the spans were not accepted; empty: they were accepted
        bool again = false;   // true: another try may succeed
    };
    void begin_later(std::int64_t delay_ms);
    void begin();
    void done(const Outcome& outcome);
    void drop(std::size_t count, const std::string& why);
    std::vector<Span> next_batch();

    net::Loop& loop_;
    metrics::Metrics& metrics_;
    TraceSource source_;
    const std::string shown_;  // the endpoint as text for messages
    std::deque<Span> queue_;
    std::vector<Span> sending_;  // spans that the thread is sending, or that wait for another try
    int tries_ = 0;
    bool waiting_ = false, complained_ = false;
    std::shared_ptr<Sender> sender_;
    // the last member, because the thread must end before the members that it uses
    net::WorkThread thread_{net::ThreadPriority::behind_loop};
};

}  // namespace rtrain::head
