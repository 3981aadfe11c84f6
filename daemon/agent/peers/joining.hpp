// How a node comes into a cluster, and leaves it.
#pragma once

#include <string>

#include "base/result.hpp"
#include "daemon/agent/base/options.hpp"

namespace rtrain {

// Makes a key, asks the head for a certificate, keeps both below data_dir (0600). Before anything is sent the head's
// authority is checked against the fingerprint in the token, and this node's offer against the machine, so that a slip
// costs no token. A node that has joined this cluster before keeps its identity, and needs no token: an empty one. It
// is unauthorised then if it has left the cluster since.
Status join(const AgentOptions& options, const std::string& token_text);

// Returns whether an agent serves from data_dir at this moment as the node that `options` name, in the cluster that the
// token is of (any cluster without a token). Such a node has nothing to join, and `join` would refuse.
bool serves_as_joined(const AgentOptions& options, const std::string& token_text);

struct JoinedNode {
    std::string name, cluster_id;
};
// Returns the node whose identity is in data_dir; not_found without one.
Result<JoinedNode> joined_node(const std::string& data_dir);

// Takes this node out of its cluster: forgets the identity. Refused while an agent serves from this directory.
Status forget_identity(const std::string& data_dir);

}  // namespace rtrain
