// Bounds how often a party may sign in, or may fail to sign in: ten times at once, then once in six seconds. Used by
// the loop's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace rtrain::head {

class SignInRate {
  public:
    static constexpr double burst = 10;
    static constexpr std::int64_t one_each_ms = 6'000;
    // The most parties in the table. Beyond it, a party is removed that has made at most one attempt, at least a second
    // ago. If there is no such party, all new parties share one rate.
    static constexpr std::size_t parties_most = 1'024;
    static constexpr std::int64_t kept_ms = 1'000;

    // Takes one attempt of `party`. Returns false if the party has no attempt left.
    bool take(const std::string& party, std::int64_t wall_ms);

  private:
    struct Party {
        double left = burst;
        std::int64_t counted_wall_ms = 0;
    };
    bool full() const { return parties_.size() - parties_.count("") >= parties_most; }
    void forget_some(std::int64_t wall_ms);
    Party& party_of(const std::string& party, std::int64_t wall_ms);
    std::map<std::string, Party> parties_;
};

// Returns the party that a failed sign-in from this peer ("10.0.0.7:41234", "[fd00::1]:41234") counts against: the
// address, or the /64 network of an IPv6 address.
std::string sign_in_party(const std::string& peer_address);

}  // namespace rtrain::head
