// The limits that admins have set for single users: settings of the journal, and the same values in UserBytes.
#pragma once

#include <map>
#include <string>

#include "daemon/head/base/user_bytes.hpp"

namespace rtrain::head {

inline constexpr const char* quota_prefix = "quota/";

// Returns the text of a user's setting; empty if the user has the common limit.
std::string quota_text(const std::optional<KeptBytes>& own);
// Keys are whole setting names.
void recall_quotas(UserBytes& bytes, const std::map<std::string, std::string>& settings);

}  // namespace rtrain::head
