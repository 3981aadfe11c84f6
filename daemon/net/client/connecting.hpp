// Makes a trusted TLS connection to an address: resolve, connect and handshake under one deadline. For blocking clients
// and for WebSockets on a loop.
#pragma once

#include <memory>

#include "daemon/net/client.hpp"
#include "daemon/net/tls.hpp"
#include "daemon/net/wire.hpp"

namespace rtrain::net {

class Connecting : public std::enable_shared_from_this<Connecting> {
  public:
    using Outcome = std::function<void(Result<std::shared_ptr<Wire>>)>;
    Connecting(asio::io_context& io, Endpoint endpoint, Outcome outcome);

    void start();   // `outcome` is called once, later
    void cancel();  // ends soon, like a timeout

  private:
    using Resolver = asio::ip::basic_resolver<tcp, asio::io_context::executor_type>;
    void resolve();
    void try_next();
    void shake_hands();
    void shook_hands(error_code error);
    void finish(Result<std::shared_ptr<Wire>> result);
    void give_up(const std::string& why);

    asio::io_context& io_;
    const Endpoint endpoint_;
    const std::string where_;
    Outcome outcome_;
    Watchdog watchdog_;
    Resolver resolver_;
    std::vector<tcp::endpoint> candidates_;
    std::size_t next_ = 0;
    std::unique_ptr<Tcp> socket_;
    std::shared_ptr<ClientTls> tls_;
    std::shared_ptr<Wire> wire_;
};

std::string where_text(const Endpoint& endpoint);  // "head:7433"
// Returns the Error of a connection that broke while `doing`. A TLS alert means that our certificate was refused: with
// TLS 1.3 it arrives after the client's side of the handshake has ended.
Error broken(const Endpoint& endpoint, const std::string& doing, const error_code& why);

}  // namespace rtrain::net
