// See change_rate.hpp.
#include "daemon/head/access/change_rate.hpp"

#include <algorithm>

namespace rtrain::head {

std::int64_t ChangeRate::take(const std::string& party, std::int64_t monotonic_ms) {
    // the most parties that are stored; each has used up some of its changes
    constexpr std::size_t parties_most = 4'096;
    constexpr std::int64_t one_ms = 1'000 / each_second;
    if (full_ms_.size() >= parties_most)
        std::erase_if(full_ms_, [&](const auto& entry) { return entry.second <= monotonic_ms; });
    std::int64_t& full_ms = full_ms_[party];
    const std::int64_t next_ms = std::max(full_ms, monotonic_ms) + one_ms;
    const std::int64_t wait_ms = next_ms - monotonic_ms - burst * one_ms;
    if (wait_ms > 0) return wait_ms;
    full_ms = next_ms;
    return 0;
}

std::string party_of_changes(const Caller& caller) {
    if (caller.role == Role::admin || caller.role == Role::node) return "";
    if (!caller.run.empty()) return "runs of " + caller.user;
    return caller.session.empty() ? "token " + caller.token_id : "session " + caller.session;
}

}  // namespace rtrain::head
