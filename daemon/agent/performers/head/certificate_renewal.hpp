// Renews the node's certificate before it expires, while the agent serves.
#pragma once

#include "daemon/agent/performers/peers/peer_links.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

class CertificateRenewal {
  public:
    CertificateRenewal(net::Background background, ThisNode& node, PeerLinks& peers)
        : background_(background), node_(node), peers_(peers) {}
    void renew();  // renews now if needed, and checks again twice a day

  private:
    void renewed(const Identity& identity);

    const net::Background background_;
    ThisNode& node_;
    PeerLinks& peers_;
};

}  // namespace rtrain::agent
