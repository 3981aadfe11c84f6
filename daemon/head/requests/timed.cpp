// See timed.hpp.
#include "daemon/head/requests/timed.hpp"

#include <memory>
#include <utility>

namespace rtrain::head {
namespace {

// A request that has not been answered. If the head fails before the answer, the destructor sends the reason.
struct Unanswered {
    using Why = std::shared_ptr<const std::optional<Error>>;
    Unanswered(std::shared_ptr<net::Responder> responder, Why why_it_ends, Why no_room_there)
        : inner(std::move(responder)), failure(std::move(why_it_ends)), no_room(std::move(no_room_there)) {}
    Unanswered(const Unanswered&) = delete;
    ~Unanswered() {  // sends nothing if the request was answered
        if (*failure)
            send({(*failure)->code, "the head could not write down what it was asked, and ends: " + (*failure)->message,
                  (*failure)->next + "; start the head again (rtrain head start); then ask again"});
        else if (*no_room)
            send({(*no_room)->code, "the head could not write down what it was asked: " + (*no_room)->message,
                  (*no_room)->next + "; it may still be done once there is room: look before you ask again"});
    }
    void send(const Error& error) const { inner->send({.status = http_status(error), .body = error_body(error, {})}); }
    const std::shared_ptr<net::Responder> inner;
    const Why failure, no_room;
};

// Measures a request, and delays its answer until the state from which the answer was made is durable.
class Timed : public net::Responder {
  public:
    Timed(Durability durability, metrics::Metrics& metrics, std::shared_ptr<net::Responder> inner, const Route& route)
        : durability_(durability),
          metrics_(metrics),
          asked_(std::make_shared<Unanswered>(std::move(inner), durability.failure(), durability.no_room())),
          route_(route),
          begun_us_(monotonic_us()) {}
    void send(net::Response response) override {
        if (durability_.all_durable())
            return send_and_measure(metrics_, asked_->inner, route_, begun_us_, std::move(response));
        auto held = std::make_shared<net::Response>(std::move(response));
        durability_.once_durable([&metrics = metrics_, asked = asked_, &route = route_, begun_us = begun_us_, held] {
            send_and_measure(metrics, asked->inner, route, begun_us, std::move(*held));
        });
    }
    std::shared_ptr<net::Stream> stream(std::string type) override { return asked_->inner->stream(std::move(type)); }
    std::shared_ptr<net::Socket> accept_socket(net::SocketEvents events) override {
        return asked_->inner->accept_socket(std::move(events));
    }
    bool wants_socket() const override { return asked_->inner->wants_socket(); }

  private:
    static void send_and_measure(metrics::Metrics& metrics, const std::shared_ptr<net::Responder>& inner,
                                 const Route& route, std::int64_t begun_us, net::Response response) {
        const double seconds = static_cast<double>(monotonic_us() - begun_us) / 1e6;
        metrics.http_request(
            {.method = route.method, .route = route.pattern, .status = response.status, .seconds = seconds});
        inner->send(std::move(response));
    }

    const Durability durability_;
    metrics::Metrics& metrics_;
    std::shared_ptr<Unanswered> asked_;
    const Route& route_;
    std::int64_t begun_us_;
};

}  // namespace

std::shared_ptr<net::Responder> timed(Durability durability, metrics::Metrics& metrics,
                                      std::shared_ptr<net::Responder> responder, const Route& route) {
    return std::make_shared<Timed>(durability, metrics, std::move(responder), route);
}

}  // namespace rtrain::head
