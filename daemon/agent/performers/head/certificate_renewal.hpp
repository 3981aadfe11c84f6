// The node's certificate is renewed before it ends, while the agent serves.
#pragma once

#include "daemon/agent/performers/peers/peer_links.hpp"
#include "daemon/agent/performers/this_node.hpp"

namespace rtrain::agent {

class CertificateRenewal {
  public:
    CertificateRenewal(net::Loop& loop, ThisNode& node, PeerLinks& peers) : loop_(loop), node_(node), peers_(peers) {}
    void renew();  // now, and again twice a day

  private:
    void renewed(const Identity& identity);

    net::Loop& loop_;
    ThisNode& node_;
    PeerLinks& peers_;
};

}  // namespace rtrain::agent
