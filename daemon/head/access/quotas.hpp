// The limits that admins have set for single users: settings of the journal, and the same values in UserBytes.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "daemon/head/base/user_bytes.hpp"

namespace rtrain::head {

inline constexpr const char* quota_prefix = "quota/";

// The limits that an admin has set for one user; nullopt: the limit of all users holds.
struct OwnLimits {
    std::optional<KeptBytes> bytes;
    std::optional<std::size_t> streams;
};
inline constexpr std::size_t streams_limit_most = 100'000;

OwnLimits own_limits_of(const UserBytes& bytes, const std::string& user);
void set_own_limits(UserBytes& bytes, const std::string& user, const OwnLimits& own);
// Returns the text of a user's setting. Returns an empty text if the user has the limits of all users.
std::string quota_text(const OwnLimits& own);
// `settings`: the keys are whole, with their prefix.
void recall_quotas(UserBytes& bytes, const std::map<std::string, std::string>& settings);

}  // namespace rtrain::head
