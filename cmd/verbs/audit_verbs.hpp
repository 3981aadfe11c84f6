// The rows of `rtrain audit` in the table of verbs.
#pragma once

#include <string>
#include <vector>

#include "cmd/line/command.hpp"
#include "storage/state/audit.hpp"

namespace rtrain::cmd {

// Returns the rows of one run, given by id, or of all runs that had a name. A row's path holds the id or the name.
std::vector<state::AuditRow> rows_of_run(const std::vector<state::AuditRow>& rows, const std::string& run);

std::vector<Command> audit_commands();

}  // namespace rtrain::cmd
