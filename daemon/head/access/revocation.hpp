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

// Changes wait for the next commit, which EventLoop::save or take causes and which many changes share. A revoked
// certificate is refused from that commit on, before any answer is sent. Agents get all revocations of half a second at
// once (of long lists a little later), whatever labels the node had. Only simulated agents, which no agent connects to,
// do not get them.
class Revocations {
  public:
    // `announce` sends every revoked serial to the agents.
    using Announce = std::function<void(std::vector<std::string> serials)>;
    Revocations(net::Background background, state::SqliteJournal& journal, TokenBook& tokens, Announce announce)
        : background_(background), journal_(journal), tokens_(tokens), announce_(std::move(announce)) {}

    void open();  // as remembered
    // Records a certificate of the node. Without `expires_wall_ms` (it was seen, not made here) it counts for the
    // longest validity of certificates.
    void issued(const std::string& node, const std::string& serial, std::optional<std::int64_t> expires_wall_ms = {});
    void revoke(const std::string& node);  // revokes all its certificates
    bool revoked(const std::string& serial) const { return refused_.contains(serial); }
    void add_changes(Pending& batch);  // adds the changes since the last closed batch
    void saved(const Pending& batch);

  private:
    using Serials = std::map<std::string, std::int64_t>;  // serial and expiry
    void announce();
    std::vector<std::string> serials_in_force() const;

    const net::Background background_;
    state::SqliteJournal& journal_;
    TokenBook& tokens_;
    const Announce announce_;
    std::map<std::string, Serials> lists_;   // by setting
    std::set<std::string> changed_;          // settings
    std::set<std::string> refused_, fresh_;  // serials; fresh: for the next batch
    bool announcing_ = false;
};

}  // namespace rtrain::head
