// The limits of single users, which admins have set: settings of the journal, and the same in UserBytes.
#pragma once

#include <map>
#include <string>

#include "daemon/head/base/user_bytes.hpp"

namespace rtrain::head {

inline constexpr const char* quota_prefix = "quota/";

// The text of a user's setting. Of none: empty, and the user has the limit that all have.
std::string quota_text(const std::optional<KeptBytes>& own);
void recall_quotas(UserBytes& bytes, const std::map<std::string, std::string>& settings);  // by whole key

}  // namespace rtrain::head
