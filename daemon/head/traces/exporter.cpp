// See exporter.hpp.
#include "daemon/head/traces/exporter.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <iterator>
#include <utility>

#include "storage/http/http.hpp"

namespace rtrain::head {
namespace {

namespace http = storage::http;

constexpr std::size_t queue_most = 4'096;  // the most spans that wait: those of some hundred runs, 2 MB
constexpr std::size_t batch_most = 512;    // the most spans of one request, which then has some 300 KB
constexpr std::int64_t batch_ms = 1'000, retry_ms = 2'000;
// tries to send a request, with pauses of 2, 4 and 8 s, since a collector may be restarting
constexpr int tries_most = 4;
constexpr int connect_s = 5, stall_s = 10;
constexpr std::chrono::seconds finish_patience{3};

}  // namespace

struct TraceExporter::Sender {
    TraceSettings settings;
    std::unique_ptr<http::Connections> connections;

    Outcome send(const TraceSource& source, const std::vector<Span>& spans) {
        if (!connections) {
            auto opened = http::Connections::open("sending traces");
            if (!opened) return {.trouble = opened.error().message, .again = false};
            connections = std::move(*opened);
        }
        const std::string body = otlp_json(source, spans);
        http::Request request{.method = "POST",
                              .url = settings.url,
                              .headers = settings.headers,
                              .body = {.memory = body, .bytes = static_cast<std::int64_t>(body.size())},
                              .sink = [](std::string_view) { return true; },
                              .ca_bundle = settings.ca_file,
                              .connect_s = connect_s,
                              .stall_s = stall_s};
        request.headers.emplace_back("content-type", "application/json");
        const http::Reply reply = connections->send(request);
        if (reply.status >= 200 && reply.status < 300) return {};
        const bool busy = reply.status == 429 || reply.status == 502 || reply.status == 503 || reply.status == 504;
        return {.trouble = reply.status == 0 ? reply.trouble : "it answers " + std::to_string(reply.status),
                .again = busy || (reply.status == 0 && !reply.untrusted)};
    }
};

TraceExporter::TraceExporter(net::Loop& loop, metrics::Metrics& metrics, TraceSettings settings)
    : loop_(loop),
      metrics_(metrics),
      shown_(settings.shown),
      sender_(std::make_shared<Sender>(Sender{.settings = std::move(settings), .connections = nullptr})) {}

TraceExporter::~TraceExporter() { thread_.stop(); }

void TraceExporter::add(std::vector<Span> spans) {
    const std::size_t taken = std::min(spans.size(), queue_most - queue_.size());
    std::move(spans.begin(), spans.begin() + static_cast<std::ptrdiff_t>(taken), std::back_inserter(queue_));
    if (taken < spans.size()) drop(spans.size() - taken, "too many spans wait");
    if (sending_.empty() && !queue_.empty()) begin_later(batch_ms);
}

void TraceExporter::begin_later(std::int64_t delay_ms) {
    if (std::exchange(waiting_, true)) return;
    loop_.after(delay_ms, [this] {
        waiting_ = false;
        begin();
    });
}

std::vector<Span> TraceExporter::next_batch() {
    const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(std::min(batch_most, queue_.size()));
    std::vector<Span> batch(std::make_move_iterator(queue_.begin()), std::make_move_iterator(end));
    queue_.erase(queue_.begin(), end);
    return batch;
}

void TraceExporter::begin() {
    if (sending_.empty()) sending_ = next_batch();
    if (sending_.empty()) return;
    thread_.add([this, sender = sender_, source = source_, spans = sending_] {
        Outcome outcome;
        try {
            outcome = sender->send(source, spans);
        } catch (const std::exception& wrong) { outcome.trouble = net::thrown(wrong, "sending traces").message; }
        loop_.post([this, outcome] { done(outcome); });
    });
}

void TraceExporter::done(const Outcome& outcome) {
    if (!outcome.trouble.empty() && outcome.again && ++tries_ < tries_most)
        return begin_later(retry_ms << (tries_ - 1));
    if (outcome.trouble.empty()) {
        metrics_.spans("sent", sending_.size());
        complained_ = false;
    } else {
        drop(sending_.size(), outcome.trouble);
    }
    tries_ = 0;
    sending_.clear();
    if (!queue_.empty()) begin_later(queue_.size() >= batch_most ? 0 : batch_ms);
}

// Drops spans. Logs this only once, until spans are accepted again.
void TraceExporter::drop(std::size_t count, const std::string& why) {
    metrics_.spans("dropped", count);
    if (!std::exchange(complained_, true))
        std::fprintf(stderr, "rtrain head: traces to %s are dropped: %s\n", shown_.c_str(), why.c_str());
}

void TraceExporter::finish() {
    const auto until = std::chrono::steady_clock::now() + finish_patience;
    http::end_requests_at(until);
    const auto sent = std::make_shared<std::promise<void>>();
    auto ended = sent->get_future();
    std::vector<Span> last = std::move(sending_);  // these spans may be sent twice, but with the same ids
    std::move(queue_.begin(), queue_.end(), std::back_inserter(last));
    thread_.add([sender = sender_, source = source_, last = std::move(last), sent] {
        if (!last.empty()) (void)sender->send(source, last);
        sent->set_value();
    });
    ended.wait_until(until);
    http::end_requests_at(std::chrono::steady_clock::now());
}

}  // namespace rtrain::head
