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

    void open(TraceSource source) { source_ = std::move(source); }  // before the first span
    void add(std::vector<Span> spans);
    void finish();  // sends the rest within some seconds, after the loop has ended

  private:
    struct Sender;  // the state of the thread
    struct Outcome {
        std::string trouble;  // empty: the spans were accepted
        bool again = false;   // another try may succeed
    };
    void begin_later(std::int64_t delay_ms);
    void begin();
    void done(const Outcome& outcome);
    void drop(std::size_t count, const std::string& why);
    std::vector<Span> next_batch();

    net::Loop& loop_;
    metrics::Metrics& metrics_;
    TraceSource source_;
    const std::string shown_;  // the endpoint, for messages
    std::deque<Span> queue_;
    std::vector<Span> sending_;  // spans at the thread, or waiting for another try
    int tries_ = 0;
    bool waiting_ = false, complained_ = false;
    std::shared_ptr<Sender> sender_;
    net::WorkThread thread_{net::ThreadPriority::behind_loop};  // last: it must end before the members that it uses
};

}  // namespace rtrain::head
