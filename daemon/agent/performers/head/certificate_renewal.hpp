// The node's certificate is renewed before it ends, while the agent serves.
#pragma once

#include "daemon/agent/performers/peers/peer_links.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

class CertificateRenewal {
  public:
    CertificateRenewal(net::Background background, ThisNode& node, PeerLinks& peers)
        : background_(background), node_(node), peers_(peers) {}
    void renew();  // now, and again twice a day

  private:
    void renewed(const Identity& identity);

    const net::Background background_;
    ThisNode& node_;
    PeerLinks& peers_;
};

}  // namespace rtrain::agent
