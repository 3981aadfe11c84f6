// The facts that a head returns to its starter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rtrain {

// The facts that are known once the head listens: enough for the join line and for the first user's context.
struct HeadListening {
    std::uint16_t port = 0;
    std::string cluster_id, name;
    std::string ca;  // PEM
    std::string ca_fingerprint;
    std::string admin_token;  // set by starts before any caller has used an admin token
    std::string join_token;   // set by the same starts, for one node
    std::int64_t join_token_expires_wall_ms = 0;
    std::vector<std::string> warnings;  // such as "the storage root is on tmpfs ..."
};

}  // namespace rtrain
