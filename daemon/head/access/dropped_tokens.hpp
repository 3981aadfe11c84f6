// Admin tokens that `rtrain token create --data DIR` made on the head's machine: files in <data>/new-tokens, which only
// the owner of the data directory can write. The head takes them at its start and every second; so a token is made
// whether the head runs or not, and whoever has lost all others.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "daemon/head/access/tokens.hpp"

namespace rtrain::head {

struct DroppedToken {
    std::string id, text;  // the text is shown once; the file has its hash
    std::string file;      // gone as soon as the head has taken the token
};
// `expires_wall_ms` 0: never.
Result<DroppedToken> drop_admin_token(const std::string& data_dir, const std::string& user,
                                      std::int64_t expires_wall_ms);

Status take_dropped_tokens(const std::string& data_dir, state::SqliteJournal& journal, TokenBook& tokens);

}  // namespace rtrain::head
