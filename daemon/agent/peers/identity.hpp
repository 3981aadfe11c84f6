// The identity of this node: name, cluster, certificate and key, stored below <data>/identity (0600).
#pragma once

#include <string>

#include "daemon/agent/base/options.hpp"
#include "daemon/net/client.hpp"

namespace rtrain::agent {

struct Identity {
    std::string node, cluster_id, head_host;
    std::uint16_t head_port = 7433;
    std::string certificate, private_key, ca;
};
Result<Identity> load_identity(const std::string& data_dir);  // not_found: the node never joined
Status save_identity(const std::string& data_dir, const Identity& identity);
net::Endpoint head_endpoint(const Identity& identity);
struct JoinWish {
    std::string node, head_host;
    std::uint16_t head_port = 7433;
    std::string token;           // the token's text
    std::string ca_fingerprint;  // from the token
};
net::Endpoint joining_endpoint(const JoinWish& wish);
// Makes a key and asks the head for a certificate, over a connection that may serve several.
Result<Identity> request_to_join(net::Client& head, const JoinWish& wish);
std::string host_port(const Identity& identity);  // the head's, in the form HOST:PORT
// Returns true if the head refuses this certificate, because the node has left or its name has joined again. Returns
// false if the head does not answer.
bool is_refused_by_head(const Identity& identity);
// Requests a new certificate from the head if the present one ends within `margin_ms`. Returns true if it was renewed.
Result<bool> renew(Identity& identity, const std::string& data_dir, std::int64_t now_wall_ms, std::int64_t margin_ms);
std::string host_name();

// Allows one agent per data directory. Holds the lock during its life.
class DirectoryLock {
  public:
    static Result<DirectoryLock> take(const std::string& data_dir);
    DirectoryLock(DirectoryLock&& other) noexcept;
    DirectoryLock& operator=(DirectoryLock&&) = delete;
    ~DirectoryLock();

  private:
    explicit DirectoryLock(int descriptor) : descriptor_(descriptor) {}
    int descriptor_ = -1;
};

}  // namespace rtrain::agent
