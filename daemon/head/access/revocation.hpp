// The certificates of nodes: the issued and the revoked ones. A node that leaves, or whose name joins again, loses all
// its certificates. The head refuses them, and sends their serials to the agents.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/head/access/tokens.hpp"
#include "daemon/head/loop/pending.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::head {

// Stores changes until the next commit, which EventLoop::save or take causes and which many changes share. From that
// commit on, the head refuses a revoked certificate, before any answer is sent. All agents receive the revocations of
// half a second in one message (with long lists a little later). Only simulated agents receive none, since no agent
// connects to them.
class Revocations {
  public:
    // `announce` sends every revoked serial to the agents.
    using Announce = std::function<void(std::vector<std::string> serials)>;
    Revocations(net::Background background, state::SqliteJournal& journal, TokenBook& tokens, Announce announce)
        : background_(background), journal_(journal), tokens_(tokens), announce_(std::move(announce)) {}

    void open();  // loads the lists that an earlier head has saved
    // Records a certificate of the node. Without `expires_wall_ms` (this head did not issue the certificate), it counts
    // as valid for the longest validity of certificates.
    void issued(const std::string& node, const std::string& serial, std::optional<std::int64_t> expires_wall_ms = {});
    void revoke(const std::string& node);  // revokes all certificates of the node
    bool revoked(const std::string& serial) const { return refused_.contains(serial); }
    // adds the changes since the last call to the batch, which is about to be written
    void add_changes(Pending& batch);
    void saved(const Pending& batch);

  private:
    // key: a certificate's serial; value: its expiry, wall clock in ms
    using Serials = std::map<std::string, std::int64_t>;
    void announce();
    std::vector<std::string> serials_in_force() const;

    const net::Background background_;
    state::SqliteJournal& journal_;
    TokenBook& tokens_;
    const Announce announce_;
    std::map<std::string, Serials> lists_;  // key: the setting, for example "revoked/<node>"
    std::set<std::string> changed_;         // keys of the settings that changed since the last batch
    // serials of revoked certificates; `fresh_`: those revoked since the last batch
    std::set<std::string> refused_, fresh_;
    bool announcing_ = false;
};

}  // namespace rtrain::head
