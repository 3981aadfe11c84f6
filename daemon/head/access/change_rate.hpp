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
    // A script that submits thousands of runs, one request each, is not slowed down.
    static constexpr std::int64_t burst = 2'000, each_second = 100;

    // Takes one change of `party`. Returns how long to wait, in milliseconds, if it has none left now; else 0.
    std::int64_t take(const std::string& party, std::int64_t monotonic_ms);

  private:
    // When all of the party's changes are there again. Invariant: `full_ms` - now <= burst * 1000 / each_second, in
    // milliseconds.
    std::map<std::string, std::int64_t> full_ms_;
};

// Returns who a change counts against: the token, the browser's session, or all runs of the user. Empty: an admin or a
// node, who have no such bound.
std::string party_of_changes(const Caller& caller);

}  // namespace rtrain::head
