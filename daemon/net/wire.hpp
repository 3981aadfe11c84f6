// One TLS connection: bytes and deadlines, with callbacks of fixed types, so that Asio's templates are compiled in
// wire.cpp only. It belongs to the thread of its io_context.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "daemon/net/loop/asio.hpp"

namespace rtrain::net {

class Wire {
  public:
    // `keeper` owns the TLS settings that contain `context`.
    Wire(Tcp socket, asio::ssl::context& context, std::shared_ptr<void> keeper);
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

    void handshake_as_server(OnDone done);
    void handshake_as_client(OnDone done);
    void read_some(void* to, std::size_t bytes, OnBytes done);
    // writes all bytes; they belong to the caller and must live until `done`
    void write(const void* from, std::size_t bytes, OnDone done);
    void say_goodbye(OnDone done);  // sends and receives TLS's close_notify
    void end_sending();             // closes the sending direction of TCP; reading continues
    void drop_unsent();             // close() then drops bytes that the kernel has not sent
    void close();                   // at once; pending operations end with an error

    SSL* ssl() { return tls_.native_handle(); }
    asio::io_context& io() { return io_; }
    Tls& tls() { return tls_; }  // a WebSocket moves it out when it takes over
    const std::shared_ptr<void>& keeper() const { return keeper_; }

  private:
    asio::io_context& io_;
    std::shared_ptr<void> keeper_;
    Tls tls_;
};

std::string text_of(const tcp::endpoint& endpoint);  // "127.0.0.1:41234", "[::1]:41234"
// Disables delays for small writes. A peer whose machine has vanished is noticed within half a minute.
void tune(Tcp& socket);

// A deadline that is moved often and reached seldom. Moving it to a later time costs nothing.
class Watchdog {
  public:
    using Clock = std::chrono::steady_clock;
    explicit Watchdog(asio::io_context& io) : timer_(io) {}
    // `expired` is called once, at the deadline. `owner` lives at least until then or stop().
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
