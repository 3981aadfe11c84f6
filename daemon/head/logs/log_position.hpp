// How far somebody has read a run's logs: an offset in each file. As a text, it is an opaque token of clients.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/head/logs/log_store.hpp"

namespace rtrain::head {

using LogPosition = std::map<LogName, std::uint64_t>;  // of one run; files that are absent: their beginning

// Letters, digits, '-' and '_'. Empty: it would be longer than a request's head may be.
std::string position_text(RunId run, const LogPosition& position);
// None: it is no position in this run's logs. Offsets may lie beyond a file's end.
std::optional<LogPosition> position_of(std::string_view text, RunId run);

}  // namespace rtrain::head
