// Connections between the agents of an attempt: the server that other agents dial (/v1/group, /v1/probe; mutual TLS),
// and this agent's dials to coordinators, repeated until the attempt is closed.
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

// The address that other agents dial: `address`, the operator's, when it is one of this machine's; else the one that
// this machine has towards the head (loopback, when the head is there): its end of a connection that the head takes,
// tried for a second. "0.0.0.0", all of them, where `address` is a name or another machine's (a forwarded one), and,
// with a warning, while there is no way to the head.
std::string listening_host(const std::string& address, const net::Endpoint& head);

class GroupLinks {
  public:
    using Enqueue = std::function<void(Input)>;
    // `self`: this node's certificate and the cluster's authority.
    static Result<std::unique_ptr<GroupLinks>> listen(net::Loop& loop, net::Endpoint self, const Listening& at,
                                                      Enqueue enqueue);
    // Port 0: the one of the last start, kept in the file `kept_at`, since the groups of adopted attempts know it; any
    // port when that is not free.
    static Result<std::unique_ptr<GroupLinks>> listen_again(net::Loop& loop, const net::Endpoint& self, Listening at,
                                                            const std::string& kept_at, const Enqueue& enqueue);
    ~GroupLinks();

    std::uint16_t port() const;
    // Whether this node has written its probe file for an attempt: told to the others, who may not see it.
    void answer_probes(std::function<bool(AttemptKey)> probed) { probed_ = std::move(probed); }
    void replace_identity(const net::Endpoint& self);
    void dial(AttemptKey attempt, const protocol::PeerNode& coordinator);
    void send(AttemptKey attempt, const std::string& node, const protocol::GroupMessage& message);
    void close(AttemptKey attempt);
    void refuse(std::set<std::string> serials);  // revoked certificates: their connections end

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
    std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // late completions find it gone
};

}  // namespace rtrain::agent
