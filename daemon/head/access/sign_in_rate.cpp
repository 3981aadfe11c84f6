// See sign_in_rate.hpp.
#include "daemon/head/access/sign_in_rate.hpp"

#include <algorithm>

namespace rtrain::head {
namespace {

double refilled(double left, std::int64_t passed_ms) {
    const double more = static_cast<double>(std::max<std::int64_t>(passed_ms, 0)) / SignInRate::one_each_ms;
    return std::min(SignInRate::burst, left + more);
}

}  // namespace

SignInRate::Party& SignInRate::party_of(const std::string& party, std::int64_t wall_ms) {
    if (parties_.size() >= parties_most && !parties_.contains(party))
        std::erase_if(parties_, [wall_ms](const auto& entry) {
            return refilled(entry.second.left, wall_ms - entry.second.counted_wall_ms) >= burst;
        });
    const bool shares = parties_.size() >= parties_most && !parties_.contains(party);
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

void SignInRate::give_back(const std::string& party) {
    const auto own = parties_.find(party);
    if (own != parties_.end()) own->second.left = std::min(burst, own->second.left + 1);
}

}  // namespace rtrain::head
