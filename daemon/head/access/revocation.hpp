// Certificates of nodes: which were given out, and which count no more. A node that leaves, or whose name joins anew,
// loses every certificate it had: the head refuses them, and tells the agents to.
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

// Changes wait for the next commit (EventLoop::save or take brings one), which many of them share; what is revoked is
// refused from that commit on, before anybody is answered. Agents hear of all that came within half a second at once
// (of long lists a little later), whatever labels the node had: only simulated agents, which nobody dials, are not
// told.
class Revocations {
  public:
    // `announce` tells the agents every serial that is revoked.
    using Announce = std::function<void(std::vector<std::string> serials)>;
    Revocations(net::Background background, state::SqliteJournal& journal, TokenBook& tokens, Announce announce)
        : background_(background), journal_(journal), tokens_(tokens), announce_(std::move(announce)) {}

    void open();  // as remembered
    // Notes a certificate of the node. Without `expires_wall_ms` (it is only seen, not made here) it counts for as long
    // as any may last.
    void issued(const std::string& node, const std::string& serial, std::optional<std::int64_t> expires_wall_ms = {});
    void revoke(const std::string& node);  // all its certificates
    bool revoked(const std::string& serial) const { return refused_.contains(serial); }
    void add_changes(Pending& batch);  // since the last one was closed
    void saved(const Pending& batch);

  private:
    using Serials = std::map<std::string, std::int64_t>;  // when they expire
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
