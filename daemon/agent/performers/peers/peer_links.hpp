// Outputs to peers: the links to the other agents of an attempt, and which of their certificates are revoked.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/agent/loop/inputs.hpp"
#include "daemon/agent/peers/group_links.hpp"
#include "daemon/agent/performers/live_attempts.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/net/loop/loop.hpp"

namespace rtrain::agent {

class PeerLinks {
  public:
    PeerLinks(net::Loop& loop, Inputs inputs, const ThisNode& node, const LiveAttempts& attempts)
        : loop_(loop), inputs_(inputs), node_(node), attempts_(attempts) {}
    Status listen();     // listens for other agents
    void refuse_kept();  // refuses the serials that the head has sent to an earlier agent
    std::uint16_t port() const { return links_->port(); }

    void dial(const DialCoordinator& out) { links_->dial(out.attempt, out.peer); }
    void dial_agent(const DialAgent& out);  // checks for the head whether its machine answers
    void send(const ToGroup& out) { links_->send(out.attempt, out.node, out.message); }
    void close(AttemptKey attempt) { links_->close(attempt); }

    void refuse_revoked(const std::vector<std::string>& serials);  // closes connections with revoked certificates
    void certificate_renewed() { links_->replace_identity(head_endpoint(node_.identity)); }

  private:
    net::Loop& loop_;  // sockets
    const Inputs inputs_;
    const ThisNode& node_;
    const LiveAttempts& attempts_;
    std::unique_ptr<GroupLinks> links_;
};

}  // namespace rtrain::agent
