// The facts that a head returns to its starter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rtrain {

// The facts that are known once the head listens: enough to join nodes and to make the first user's context.
struct HeadListening {
    std::uint16_t port = 0;
    std::string cluster_id, name;
    std::string ca;  // certificate of the cluster's authority, PEM
    std::string ca_fingerprint;
    std::string admin_token;  // made by starts before any caller has used an admin token; else empty
    std::string join_token;   // made by the same starts; valid for one node
    std::int64_t join_token_expires_wall_ms = 0;
    std::vector<std::string> warnings;  // texts such as "the storage root is on tmpfs ..."
};

}  // namespace rtrain
