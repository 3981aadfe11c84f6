// At which addresses the nodes of the cluster are known to each other. Pure. A loopback address is right while all
// nodes are on one machine; beside a node of another machine, nobody reaches it there.
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
    // `node` has registered at `address`. What is to be said now, and was not when the nodes known before had come.
    std::optional<Finding> known(const std::string& node, const std::string& address);
    void forget(const std::string& node);                // it has left
    std::string warning(const std::string& node) const;  // empty: nothing is wrong with its address

  private:
    std::map<std::string, std::string> loopback_, outside_;  // by node
};

bool is_loopback(const std::string& address);

}  // namespace rtrain::head
