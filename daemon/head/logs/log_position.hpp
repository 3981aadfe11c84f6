// The position of a reader in a run's logs: an offset in each file. Its text is an opaque token of clients.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/head/logs/log_store.hpp"

namespace rtrain::head {

// key: a log of the run; value: the reader's offset; a missing log counts as offset 0
using LogPosition = std::map<LogName, std::uint64_t>;

// Returns the position as text of letters, digits, '-' and '_'. Returns an empty text if it would exceed the bound on a
// request's head.
std::string position_text(RunId run, const LogPosition& position);
// Returns nullopt if the text is not a position in this run's logs. Offsets may be beyond a file's end.
std::optional<LogPosition> position_of(std::string_view text, RunId run);

}  // namespace rtrain::head
