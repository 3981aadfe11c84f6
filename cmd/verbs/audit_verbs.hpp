// The rows of `rtrain audit` in the table of verbs.
#pragma once

#include <string>
#include <vector>

#include "cmd/line/command.hpp"
#include "storage/state/audit.hpp"

namespace rtrain::cmd {

// The rows of one run, by id, or of all runs that had a name: a row has the id, and its target may have either.
std::vector<state::AuditRow> rows_of_run(const std::vector<state::AuditRow>& rows, const std::string& run);

std::vector<Command> audit_commands();

}  // namespace rtrain::cmd
