// See connecting.hpp.
#include "daemon/net/client/connecting.hpp"

#include <openssl/err.h>
#include <openssl/sslerr.h>

#include <cstdio>
#include <utility>

namespace rtrain::net {
namespace {

constexpr const char* is_it_there =
    "check that the head runs there and that no firewall is between: rtrain head status";

std::string seconds(std::int64_t ms) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ms) / 1'000);
    return text;
}

}  // namespace

std::string where_text(const Endpoint& endpoint) {
    const bool v6 = endpoint.host.find(':') != std::string::npos;
    return (v6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

Error broken(const Endpoint& endpoint, const std::string& doing, const error_code& why) {
    const std::string where = where_text(endpoint);
    if (why == asio::error::eof || why == asio::ssl::error::stream_truncated || why == asio::error::connection_reset)
        return {ErrorCode::unreachable, where + " closed the connection while " + doing, is_it_there};
    if (why.category() != asio::error::get_ssl_category())
        return {ErrorCode::unreachable, where + ": " + doing + ": " + why.message(), is_it_there};
    const int reason = ERR_GET_REASON(static_cast<unsigned long>(why.value()));
    if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST)
        return {ErrorCode::unreachable, where + " does not speak TLS: something else listens there",
                "check the port; the head's is 7433 unless it was given another"};
    return {ErrorCode::unauthorised, where + " refused the TLS connection: " + why.message(),
            endpoint.certificate.empty() ? "it may want a certificate of this cluster"
                                         : "our certificate may be expired or of another cluster: join again"};
}

Connecting::Connecting(asio::io_context& io, Endpoint endpoint, Outcome outcome)
    : io_(io),
      endpoint_(std::move(endpoint)),
      where_(where_text(endpoint_)),
      outcome_(std::move(outcome)),
      watchdog_(io),
      resolver_(io) {}

void Connecting::start() {
    watchdog_.within(std::chrono::milliseconds(endpoint_.connect_timeout_ms));
    watchdog_.start(shared_from_this(),
                    [this] { give_up(where_ + " did not answer within " + seconds(endpoint_.connect_timeout_ms)); });
    asio::post(io_, [self = shared_from_this()] { self->resolve(); });
}

void Connecting::cancel() {
    asio::post(io_, [self = shared_from_this()] { self->give_up("connecting to " + self->where_ + " was given up"); });
}

void Connecting::give_up(const std::string& why) { finish(Error{ErrorCode::unreachable, why, is_it_there}); }

void Connecting::finish(Result<std::shared_ptr<Wire>> result) {
    Outcome outcome = std::exchange(outcome_, nullptr);
    if (!outcome) return;
    auto self = shared_from_this();
    watchdog_.stop();
    resolver_.cancel();
    error_code ignored;
    if (socket_) socket_->close(ignored);
    if (auto wire = std::exchange(wire_, nullptr); wire && !result.ok()) wire->close();
    outcome(std::move(result));
}

void Connecting::resolve() {
    Result<std::shared_ptr<ClientTls>> tls = client_tls(endpoint_);
    if (!tls) return finish(tls.error());
    tls_ = std::move(*tls);
    error_code error;
    const auto literal = asio::ip::make_address(endpoint_.host == "localhost" ? "127.0.0.1" : endpoint_.host, error);
    if (!error) {
        candidates_.emplace_back(literal, endpoint_.port);
        return try_next();
    }
    resolver_.async_resolve(
        endpoint_.host, std::to_string(endpoint_.port),
        [self = shared_from_this()](error_code failed, const tcp::resolver::results_type& addresses) {
            if (failed || addresses.empty())
                return self->give_up("the address of \"" + self->endpoint_.host +
                                     "\" cannot be found: " + failed.message());
            for (const auto& entry : addresses) self->candidates_.push_back(entry.endpoint());
            self->try_next();
        });
}

void Connecting::try_next() {
    if (!outcome_) return;
    socket_ = std::make_unique<Tcp>(io_);
    socket_->async_connect(candidates_[next_++], [self = shared_from_this()](error_code error) {
        if (!self->outcome_) return;
        if (!error) return self->shake_hands();
        if (self->next_ < self->candidates_.size()) return self->try_next();
        self->give_up(self->where_ + " does not answer: " + error.message());
    });
}

void Connecting::shake_hands() {
    wire_ = std::make_shared<Wire>(std::move(*socket_), tls_->context, tls_);
    socket_.reset();
    wire_->handshake_as_client([self = shared_from_this()](error_code error) { self->shook_hands(error); });
}

void Connecting::shook_hands(error_code error) {
    if (!outcome_) return;
    if (!tls_->refusal.empty())
        return finish(Error{ErrorCode::unauthorised, where_ + " cannot be trusted: " + tls_->refusal,
                            endpoint_.ca.empty()
                                ? "check the address and the token; somebody may be in between"
                                : "check the address. A head that was made anew has another CA: take <data>/ca.crt "
                                  "of the head with rtrain context add NAME --ca FILE"});
    if (error) return finish(broken(endpoint_, "shaking hands", error));
    auto wire = wire_;
    finish(wire);
}

}  // namespace rtrain::net
