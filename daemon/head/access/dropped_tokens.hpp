// Admin tokens that `rtrain token create --data DIR` makes on the head's machine: files in <data>/new-tokens, which
// only the owner of the data directory can write. The head reads them at its start and every second. So a token can be
// made while the head runs or not, and without any other token.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "daemon/head/access/tokens.hpp"

namespace rtrain::head {

struct DroppedToken {
    std::string id, text;  // id and text of the token; the text is shown once, and the file contains its hash
    std::string file;      // path of the file; the head removes it after it has read the token
};
// `expires_wall_ms`: 0: the token never expires
Result<DroppedToken> drop_admin_token(const std::string& data_dir, const std::string& user,
                                      std::int64_t expires_wall_ms);

Status take_dropped_tokens(const std::string& data_dir, state::SqliteJournal& journal, TokenBook& tokens);

}  // namespace rtrain::head
