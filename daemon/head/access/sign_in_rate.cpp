// See sign_in_rate.hpp.
#include "daemon/head/access/sign_in_rate.hpp"

#include <algorithm>

#include "daemon/net/address_network.hpp"

namespace rtrain::head {
namespace {

double refilled(double left, std::int64_t passed_ms) {
    const double more = static_cast<double>(std::max<std::int64_t>(passed_ms, 0)) / SignInRate::one_each_ms;
    return std::min(SignInRate::burst, left + more);
}

}  // namespace

// Removes parties from the table. Parties that have all their attempts are removed first. Parties that have used one
// attempt gain little by being forgotten.
void SignInRate::forget_some(std::int64_t wall_ms) {
    const auto left = [wall_ms](const Party& party) { return refilled(party.left, wall_ms - party.counted_wall_ms); };
    std::erase_if(parties_, [&](const auto& entry) { return left(entry.second) >= burst; });
    if (!full()) return;
    auto oldest = parties_.end();
    for (auto at = parties_.begin(); at != parties_.end(); ++at) {
        const Party& party = at->second;
        if (at->first.empty() || left(party) < burst - 1 || wall_ms - party.counted_wall_ms < kept_ms) continue;
        if (oldest == parties_.end() || party.counted_wall_ms < oldest->second.counted_wall_ms) oldest = at;
    }
    if (oldest != parties_.end()) parties_.erase(oldest);
}

SignInRate::Party& SignInRate::party_of(const std::string& party, std::int64_t wall_ms) {
    if (full() && !parties_.contains(party)) forget_some(wall_ms);
    const bool shares = full() && !parties_.contains(party);
    return parties_.try_emplace(shares ? "" : party, Party{.counted_wall_ms = wall_ms}).first->second;
}

bool SignInRate::take(const std::string& party, std::int64_t wall_ms) {
    Party& own = party_of(party, wall_ms);
    own.left = refilled(own.left, wall_ms - own.counted_wall_ms);
    own.counted_wall_ms = wall_ms;
    if (own.left < 1) return false;
    own.left -= 1;
    return true;
}

std::string sign_in_party(const std::string& peer_address) {
    std::string host = peer_address.substr(0, peer_address.rfind(':'));
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    return "address " + net::network_of(host);
}

}  // namespace rtrain::head
