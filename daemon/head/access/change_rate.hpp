// Bounds how often one token may change something: each change has a row in the audit and an event. Used by the loop's
// thread only.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "daemon/head/access/tokens.hpp"

namespace rtrain::head {

class ChangeRate {
  public:
    // Changes that a party may make at once, and per second after that. Even a script that submits thousands of runs,
    // one per request, is not slowed down.
    static constexpr std::int64_t burst = 2'000, each_second = 100;

    // Takes one change of `party`. Returns 0 if the party may change something now. Otherwise returns how long it must
    // wait, in milliseconds.
    std::int64_t take(const std::string& party, std::int64_t monotonic_ms);

  private:
    // The time at which the party has all of its changes again (monotonic, in ms). Invariant: `full_ms` - now <= burst
    // * 1000 / each_second.
    std::map<std::string, std::int64_t> full_ms_;
};

// Returns the party that a change counts against: the token, the browser's session, or all runs of the user. Returns an
// empty text for an admin or a node: they have no such bound.
std::string party_of_changes(const Caller& caller);

}  // namespace rtrain::head
