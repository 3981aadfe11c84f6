// What the head counts while it works; also the clock around requests.
#include "daemon/head/counting.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "daemon/head/api.hpp"
#include "daemon/head/view_json.hpp"
#include "daemon/head/words.hpp"

namespace rtrain::head {
namespace {

bool failed_by_itself(const ExitCause& cause) { return !cause.success() && !cause.stopped_by_us; }

// A request that is not answered yet. Whoever asked a head that fails before that is told why.
struct Unanswered {
    using Why = std::shared_ptr<const std::optional<Error>>;
    Unanswered(std::shared_ptr<net::Responder> responder, Why why_it_ends, Why no_room_there)
        : inner(std::move(responder)), failure(std::move(why_it_ends)), no_room(std::move(no_room_there)) {}
    Unanswered(const Unanswered&) = delete;
    ~Unanswered() {  // nothing is sent if it was answered
        if (*failure)
            send({(*failure)->code, "the head could not write down what it was asked, and ends: " + (*failure)->message,
                  (*failure)->next + "; start the head again (rtrain head start); then ask again"});
        else if (*no_room)
            send({(*no_room)->code, "the head could not write down what it was asked: " + (*no_room)->message,
                  (*no_room)->next + "; it may still be done once there is room: look before you ask again"});
    }
    void send(const Error& told) const { inner->send({.status = http_status(told), .body = error_body(told, {})}); }
    const std::shared_ptr<net::Responder> inner;
    const Why failure, no_room;
};

// Holds an answer back until what it may tell is durable, and tells how long it took.
class Timed : public net::Responder {
  public:
    Timed(Head& head, std::shared_ptr<net::Responder> inner, const Route& route)
        : head_(head),
          asked_(std::make_shared<Unanswered>(std::move(inner), head.failure, head.no_room)),
          route_(route),
          begun_us_(monotonic_us()) {}
    void send(net::Response response) override {
        if (head_.all_durable()) return tell(head_, asked_->inner, route_, begun_us_, std::move(response));
        auto held = std::make_shared<net::Response>(std::move(response));
        head_.once_durable([&head = head_, asked = asked_, &route = route_, begun_us = begun_us_, held] {
            tell(head, asked->inner, route, begun_us, std::move(*held));
        });
    }
    std::shared_ptr<net::Stream> stream(std::string type) override { return asked_->inner->stream(std::move(type)); }
    std::shared_ptr<net::Socket> accept_socket(net::SocketEvents events) override {
        return asked_->inner->accept_socket(std::move(events));
    }
    bool wants_socket() const override { return asked_->inner->wants_socket(); }

  private:
    static void tell(Head& head, const std::shared_ptr<net::Responder>& inner, const Route& route,
                     std::int64_t begun_us, net::Response response) {
        const double seconds = static_cast<double>(monotonic_us() - begun_us) / 1e6;
        head.metrics.http_request(
            {.method = route.method, .route = route.pattern, .status = response.status, .seconds = seconds});
        inner->send(std::move(response));
    }

    Head& head_;
    std::shared_ptr<Unanswered> asked_;
    const Route& route_;
    std::int64_t begun_us_;
};

}  // namespace

std::shared_ptr<net::Responder> timed(Head& head, std::shared_ptr<net::Responder> responder, const Route& route) {
    return std::make_shared<Timed>(head, std::move(responder), route);
}

void count_silence(Head& head, const NodeId& node, double seconds) {
    Ledger made;
    std::set<RunId> runs;
    for (const AttemptId& id : in_step(head.cluster, made).on_node(node)) runs.insert(id.run);
    for (const RunId run : runs) head.metrics.lost_time(run, metrics::LostPhase::detect, seconds);
}

// What is counted as it happens: queue waits, checkpoints, reports, warnings.
void count_placed(Head& head, const Attempt& attempt) {
    const auto run = head.cluster.runs.find(attempt.id.run);
    if (attempt.id.number != 1 || run == head.cluster.runs.end()) return;
    head.metrics.left_queue(run->second.spec.queue,
                            static_cast<double>((attempt.placed_at - run->second.submitted).ms) / 1e3);
}

// Words of the agent's coordinator (daemon/agent/machine/coordinator.cpp): one notice for each kind of trouble of a
// checkpoint.
bool tells_of_a_lost_checkpoint(const std::string& reason) {
    return reason.starts_with("storage_") || reason == "ranks_ended" || reason == "checkpoint_given_up";
}

void count_news(Head& head, const protocol::News& news) {
    // Of others nothing is counted: what a scrape has not seen yet would stay.
    const auto known = [&](const protocol::AttemptRef& attempt) {
        return head.cluster.runs.contains(RunId{attempt.run});
    };
    if (const auto* said = std::get_if<protocol::Committed>(&news.what); said && known(said->attempt))
        head.metrics.checkpoint_saved({.run = RunId{said->attempt.run},
                                       .save_seconds = static_cast<double>(said->upload_ms) / 1e3,
                                       .blocked_seconds = static_cast<double>(said->blocked_us) / 1e6});
    if (const auto* said = std::get_if<protocol::Exited>(&news.what);
        said && known(said->attempt) && failed_by_itself(said->cause))
        head.metrics.lost_time(RunId{said->attempt.run}, metrics::LostPhase::detect,
                               std::max(0.0, static_cast<double>(wall_ms() - said->exit_wall_us / 1'000) / 1e3));
    if (const auto* said = std::get_if<protocol::Started>(&news.what);
        said && known(said->attempt) && said->rank == 0 && said->restore_ms > 0 && said->attempt.number > 1)
        head.metrics.lost_time(RunId{said->attempt.run}, metrics::LostPhase::restore,
                               static_cast<double>(said->restore_ms) / 1e3);
    if (const auto* said = std::get_if<protocol::Notice>(&news.what); said && known(said->attempt)) {
        if (tells_of_a_lost_checkpoint(said->reason))
            head.metrics.checkpoint_failed(RunId{said->attempt.run}, said->reason);
        if (!said->reason.empty()) head.metrics.warned(RunId{said->attempt.run}, said->reason);
    }
    if (const auto* said = std::get_if<protocol::Reported>(&news.what)) {
        const auto last = head.reports.last(RunId{said->attempt.run});
        if (last && last->index + 1 == said->index && said->wall_ms >= last->wall_ms)
            head.metrics.reported(last->attempt.run, static_cast<double>(said->wall_ms - last->wall_ms) / 1e3);
    }
}

}  // namespace rtrain::head
