// The position of a reader in a run's logs: an offset in each file. Its text is an opaque token of clients.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/head/logs/log_store.hpp"

namespace rtrain::head {

using LogPosition = std::map<LogName, std::uint64_t>;  // files of one run; a missing file stands for its beginning

// Letters, digits, '-' and '_'. Empty if it would exceed the bound on a request's head.
std::string position_text(RunId run, const LogPosition& position);
// Returns nullopt if the text is no position in this run's logs. Offsets may be beyond a file's end.
std::optional<LogPosition> position_of(std::string_view text, RunId run);

}  // namespace rtrain::head
