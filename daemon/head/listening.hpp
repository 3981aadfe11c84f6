// What a head tells whoever started it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rtrain {

// What is known once the head listens: enough for the join line and for the first user's context.
struct HeadListening {
    std::uint16_t port = 0;
    std::string cluster_id, name;
    std::string ca;  // PEM
    std::string ca_fingerprint;
    std::string admin_token;  // of starts before anybody came in with it
    std::string join_token;   // of the same starts, for one node
    std::int64_t join_token_expires_wall_ms = 0;
    std::vector<std::string> warnings;  // "the storage root is on tmpfs ..."
};

}  // namespace rtrain
