// Connections between the agents of an attempt: the server for other agents (/v1/group, /v1/probe; mutual TLS), and
// this agent's connections to coordinators, which are repeated until the attempt is closed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "daemon/agent/machine/messages.hpp"
#include "daemon/net/client.hpp"

namespace rtrain::agent {

struct Listening {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;  // 0: any
};

// Returns the address at which to listen for other agents. It is the operator's `address` if that belongs to this
// machine. Otherwise it is the local address of a connection to the head (loopback, if the head is there), tried for a
// second. It is "0.0.0.0" if `address` is a name or another machine's (a forwarded one), and, with a warning, without a
// route to the head.
std::string listening_host(const std::string& address, const net::Endpoint& head);

class GroupLinks {
  public:
    using Enqueue = std::function<void(Input)>;
    // `self` has this node's certificate and the cluster's authority.
    static Result<std::unique_ptr<GroupLinks>> listen(net::Loop& loop, net::Endpoint self, const Listening& at,
                                                      Enqueue enqueue);
    // Listens again after a restart. Port 0 is the port of the last start, from the file `kept_at`, since the groups of
    // adopted attempts use it. If it is not free, any port is used.
    static Result<std::unique_ptr<GroupLinks>> listen_again(net::Loop& loop, const net::Endpoint& self, Listening at,
                                                            const std::string& kept_at, const Enqueue& enqueue);
    ~GroupLinks();

    std::uint16_t port() const;
    // Sets the function that returns whether this node has written its probe file for an attempt. Other nodes request
    // that if they do not see the file.
    void answer_probes(std::function<bool(AttemptKey)> probed) { probed_ = std::move(probed); }
    void replace_identity(const net::Endpoint& self);
    void dial(AttemptKey attempt, const protocol::PeerNode& coordinator);
    void send(AttemptKey attempt, const std::string& node, const protocol::GroupMessage& message);
    void close(AttemptKey attempt);
    void refuse(std::set<std::string> serials);  // revoked certificates; closes their connections

  private:
    struct Dial;
    GroupLinks(net::Loop& loop, net::Endpoint self, Enqueue enqueue);
    void serve(net::Request request, const std::shared_ptr<net::Responder>& responder);
    void accept(const std::string& node, const std::shared_ptr<net::Responder>& responder);
    void on_member_message(const std::shared_ptr<net::Socket>& socket, const std::string& node,
                           const std::string& text);
    void cut_member(const std::shared_ptr<net::Socket>& socket, const std::string& node);
    void try_dial(AttemptKey attempt);
    void dial_later(AttemptKey attempt);

    net::Loop& loop_;
    net::Endpoint self_;
    Enqueue enqueue_;
    std::function<bool(AttemptKey)> probed_ = [](AttemptKey) { return false; };
    std::unique_ptr<net::Server> server_;
    std::set<std::string> refused_;
    std::map<AttemptKey, std::shared_ptr<Dial>> dials_;
    std::map<std::pair<AttemptKey, std::string>, std::shared_ptr<net::Socket>> members_;
    std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // late completions see that the object is gone
};

}  // namespace rtrain::agent
