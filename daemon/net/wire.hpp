// One TLS connection: bytes and deadlines, with callbacks of fixed types, so that Asio's templates are compiled in
// wire.cpp alone. All of it belongs to the thread of its io_context.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "daemon/net/loop/asio.hpp"

namespace rtrain::net {

class Wire {
  public:
    // `keeper` keeps the TLS settings alive that `context` is a part of.
    Wire(Tcp socket, asio::ssl::context& context, std::shared_ptr<void> keeper);
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

    void handshake_as_server(OnDone done);
    void handshake_as_client(OnDone done);
    void read_some(void* to, std::size_t bytes, OnBytes done);
    void write(const void* from, std::size_t bytes, OnDone done);  // all of them; they stay the caller's until `done`
    void say_goodbye(OnDone done);                                 // TLS close_notify, both ways
    void end_sending();                                            // TCP's own end; reading goes on
    void drop_unsent();                                            // what the kernel has not sent yet goes with close()
    void close();                                                  // at once; what is under way ends with an error

    SSL* ssl() { return tls_.native_handle(); }
    asio::io_context& io() { return io_; }
    Tls& tls() { return tls_; }  // to be moved from, when a WebSocket takes over
    const std::shared_ptr<void>& keeper() const { return keeper_; }

  private:
    asio::io_context& io_;
    std::shared_ptr<void> keeper_;
    Tls tls_;
};

std::string text_of(const tcp::endpoint& endpoint);  // "127.0.0.1:41234", "[::1]:41234"
// No delay for small writes; a peer whose machine vanished is noticed within half a minute.
void tune(Tcp& socket);

// A deadline that is moved often and reached seldom: moving it later costs nothing.
class Watchdog {
  public:
    using Clock = std::chrono::steady_clock;
    explicit Watchdog(asio::io_context& io) : timer_(io) {}
    // `expired` is called once, at the deadline; `owner` lives at least until then or stop().
    void start(std::shared_ptr<void> owner, std::function<void()> expired);
    void within(std::chrono::milliseconds time);
    void never();
    void stop();

  private:
    void arm();
    Timer timer_;
    Clock::time_point deadline_ = Clock::time_point::max();
    Clock::time_point armed_ = Clock::time_point::max();
    std::shared_ptr<void> owner_;
    std::function<void()> expired_;
};

}  // namespace rtrain::net
