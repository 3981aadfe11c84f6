// The addresses at which the nodes of the cluster reach each other. Pure. A loopback address is correct while all nodes
// are on one machine. With a node on another machine, that node cannot reach it.
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
    // Records that `node` has registered at `address`. Returns a finding if one has become true with this node.
    std::optional<Finding> known(const std::string& node, const std::string& address);
    void forget(const std::string& node);                // the node has left
    std::string warning(const std::string& node) const;  // empty if its address is fine

  private:
    std::map<std::string, std::string> loopback_, outside_;  // by node
};

bool is_loopback(const std::string& address);

}  // namespace rtrain::head
