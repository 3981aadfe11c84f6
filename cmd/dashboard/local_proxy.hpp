// A plain HTTP server on 127.0.0.1 that passes one browser's requests on to the head, over TLS and with the rights of
// the token's user. The browser receives neither that token nor the cookie of the head's session.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/descriptor.hpp"
#include "cmd/dashboard/gate.hpp"
#include "daemon/net/client.hpp"

namespace rtrain::cmd {

class LocalProxy {
  public:
    // Signs in at the head with the token in `head.bearer`, and listens on a free port.
    static Result<std::unique_ptr<LocalProxy>> start(net::Endpoint head);
    ~LocalProxy();  // signs out and ends every connection
    LocalProxy(const LocalProxy&) = delete;
    LocalProxy& operator=(const LocalProxy&) = delete;

    const std::string& link() const { return link_; }
    bool link_opens();  // false: the link was used before, or is too old

  private:
    struct Connection {
        int socket = -1;  // the connection's own thread closes it
        std::atomic<bool> done = false;
        // true: the answer has no end, so only the browser ends it by closing the connection
        std::atomic<bool> streams = false;
        std::unique_ptr<net::Client> client;
        std::thread thread;
    };
    class Carrier;
    explicit LocalProxy(net::Endpoint head);
    Status sign_in(const std::string& token);
    void sign_out();
    Status listen();

    void accept_all();
    void reap();
    void cut_left_behind();  // closes streams whose browser has closed its connection
    void serve(Connection& connection);
    bool serve_one(Connection& connection, std::string& read);
    bool answer(Connection& connection, const net::MessageHead& head, std::string body);
    bool forward(Connection& connection, const net::MessageHead& head, std::string body);
    net::Call call_for(const net::MessageHead& head, std::string body);
    void keep_cookie(const net::Response& answer);
    std::string head_origin() const;

    const net::Endpoint head_;
    const std::string host_;  // name of the head, as the head's own page uses it in requests
    storage::Descriptor listener_;
    std::unique_ptr<Gate> gate_;
    std::string link_;
    std::mutex guard_;    // protects `gate_`, `cookie_` and the list of connections
    std::string cookie_;  // cookie of the session at the head
    std::list<Connection> connections_;
    std::atomic<bool> ends_ = false;
    std::thread acceptor_;
};

}  // namespace rtrain::cmd
