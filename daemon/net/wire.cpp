// See wire.hpp.
#include "daemon/net/wire.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/write.hpp>
#include <utility>

namespace rtrain::net {
namespace {

constexpr int keepalive_idle_s = 15;
constexpr int keepalive_interval_s = 5;
constexpr int keepalive_probes = 3;
constexpr int unacknowledged_ms = 30'000;
constexpr auto longest_watch = std::chrono::hours(1);

}  // namespace

Wire::Wire(Tcp socket, asio::ssl::context& context, std::shared_ptr<void> keeper)
    : io_(socket.get_executor().context()), keeper_(std::move(keeper)), tls_(std::move(socket), context) {
    tune(tls_.next_layer());
}

void Wire::handshake_as_server(OnDone done) { tls_.async_handshake(asio::ssl::stream_base::server, std::move(done)); }
void Wire::handshake_as_client(OnDone done) { tls_.async_handshake(asio::ssl::stream_base::client, std::move(done)); }
void Wire::read_some(void* to, std::size_t bytes, OnBytes done) {
    tls_.async_read_some(asio::mutable_buffer(to, bytes), std::move(done));
}
void Wire::write(const void* from, std::size_t bytes, OnDone done) {
    asio::async_write(tls_, asio::const_buffer(from, bytes),
                      [done = std::move(done)](error_code error, std::size_t) { done(error); });
}
void Wire::say_goodbye(OnDone done) { tls_.async_shutdown(std::move(done)); }

void Wire::end_sending() {
    error_code ignored;
    tls_.next_layer().shutdown(Tcp::shutdown_send, ignored);
}

void Wire::drop_unsent() {
    error_code ignored;
    tls_.next_layer().set_option(asio::socket_base::linger(true, 0), ignored);
}

void Wire::close() {
    error_code ignored;
    tls_.next_layer().shutdown(Tcp::shutdown_both, ignored);
    tls_.next_layer().close(ignored);
}

std::string text_of(const tcp::endpoint& endpoint) {
    std::string address = endpoint.address().to_string();
    if (endpoint.address().is_v6()) {
        if (endpoint.address().to_v6().is_v4_mapped())
            address = asio::ip::make_address_v4(asio::ip::v4_mapped, endpoint.address().to_v6()).to_string();
        else
            address = "[" + address + "]";
    }
    return address + ":" + std::to_string(endpoint.port());
}

void tune(Tcp& socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    const int fd = socket.native_handle();
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &keepalive_idle_s, sizeof keepalive_idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &keepalive_interval_s, sizeof keepalive_interval_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &keepalive_probes, sizeof keepalive_probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

void Watchdog::start(std::shared_ptr<void> owner, std::function<void()> expired) {
    owner_ = std::move(owner);
    expired_ = std::move(expired);
    arm();
}

void Watchdog::within(std::chrono::milliseconds time) {
    deadline_ = Clock::now() + time;
    if (owner_ && deadline_ < armed_) timer_.cancel();  // wakes the timer, which is then set to the earlier time
}

void Watchdog::never() { deadline_ = Clock::time_point::max(); }

void Watchdog::stop() {
    owner_.reset();
    expired_ = nullptr;
    timer_.cancel();
}

void Watchdog::arm() {
    armed_ = std::min(deadline_, Clock::now() + longest_watch);
    timer_.expires_at(armed_);
    timer_.async_wait([this, owner = owner_](error_code) {
        if (!owner_) return;
        if (Clock::now() < deadline_) return arm();
        auto expired = std::move(expired_);
        auto kept = std::move(owner_);
        expired();
    });
}

}  // namespace rtrain::net
