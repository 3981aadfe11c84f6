// See dial_port.hpp. A connection that succeeds is closed at once.
#include "daemon/net/client/dial_port.hpp"

#include <memory>
#include <utility>

#include "daemon/net/loop/asio.hpp"

namespace rtrain::net {
namespace {

class PortDial : public std::enable_shared_from_this<PortDial> {
  public:
    PortDial(asio::io_context& io, std::function<void(PortAnswer)> done)
        : resolver_(io), socket_(io), timer_(io), done_(std::move(done)) {}

    void start(const std::string& host, std::uint16_t port, std::int64_t patience_ms) {
        timer_.expires_after(std::chrono::milliseconds(patience_ms));
        timer_.async_wait([self = shared_from_this()](error_code error) {
            if (!error) self->finish(PortAnswer::silent);
        });
        const auto flags = asio::ip::resolver_base::numeric_service;
        resolver_.async_resolve(host, std::to_string(port), flags,
                                [self = shared_from_this()](error_code error, const auto& addresses) {
                                    if (error || addresses.empty()) return self->finish(PortAnswer::not_dialled);
                                    self->connect(addresses.begin()->endpoint());
                                });
    }

  private:
    void connect(const tcp::endpoint& to) {
        socket_.async_connect(to, [self = shared_from_this()](error_code error) { self->connected(error); });
    }
    // A router, or the neighbour table, may report an unreachable host by mistake, so the whole patience is used.
    void connected(error_code error) {
        if (!error || error == asio::error::connection_refused || error == asio::error::connection_reset)
            return finish(PortAnswer::answered);
        if (error == asio::error::host_unreachable || error == asio::error::timed_out) return;
        finish(PortAnswer::not_dialled);
    }
    void finish(PortAnswer answer) {
        const auto done = std::exchange(done_, nullptr);
        if (!done) return;
        error_code ignored;
        resolver_.cancel();
        timer_.cancel();
        socket_.close(ignored);
        done(answer);
    }

    asio::ip::basic_resolver<tcp, asio::io_context::executor_type> resolver_;
    Tcp socket_;
    Timer timer_;
    std::function<void(PortAnswer)> done_;
};

}  // namespace

void dial_port(Loop& loop, const std::string& host, std::uint16_t port, std::int64_t patience_ms,
               std::function<void(PortAnswer)> done) {
    auto& io = *static_cast<asio::io_context*>(loop.io_context());
    std::make_shared<PortDial>(io, std::move(done))->start(host, port, patience_ms);
}

}  // namespace rtrain::net
