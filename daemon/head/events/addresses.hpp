// Finds addresses at which nodes cannot reach each other. Pure. A loopback address is correct while all nodes are on
// one machine. If some node is on another machine, it cannot reach a node with a loopback address.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

namespace rtrain::head {

class Addresses {
  public:
    struct Finding {
        std::string node, text;
    };
    // Records that `node` has registered at `address`. Returns a finding if this registration makes an address
    // unreachable.
    std::optional<Finding> known(const std::string& node, const std::string& address);
    void forget(const std::string& node);  // removes a node that has left the cluster
    // a warning about the node's address; empty if the address is fine
    std::string warning(const std::string& node) const;

  private:
    std::map<std::string, std::string> loopback_, outside_;  // key: the node; value: its address
};

bool is_loopback(const std::string& address);

}  // namespace rtrain::head
