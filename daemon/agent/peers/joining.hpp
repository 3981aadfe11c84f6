// How a node joins a cluster, and leaves it.
#pragma once

#include <string>

#include "base/result.hpp"
#include "daemon/agent/base/options.hpp"

namespace rtrain {

// Makes a key, requests a certificate from the head, and stores both below data_dir (0600). First checks the head's
// authority against the fingerprint in the token, and this node's options against the machine, so that a mistake does
// not use up a token. A node that has joined this cluster before keeps its identity and needs no token. The head
// refuses it as unauthorised if it has left the cluster since.
Status join(const AgentOptions& options, const std::string& token_text);

// Returns true if an agent serves from data_dir now, as the node in `options`, in the token's cluster (without a token:
// in any cluster). Then there is nothing to join, and `join` would fail.
bool serves_as_joined(const AgentOptions& options, const std::string& token_text);

struct JoinedNode {
    std::string name, cluster_id;
};
// Returns the node whose identity is in data_dir; not_found without one.
Result<JoinedNode> joined_node(const std::string& data_dir);

// Takes this node out of its cluster: forgets the identity. Refused while an agent serves from this directory.
Status forget_identity(const std::string& data_dir);

}  // namespace rtrain
