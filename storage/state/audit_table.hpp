// The table of the audit: see audit.hpp.
#pragma once

#include <vector>

#include "storage/state/audit.hpp"
#include "storage/state/pages.hpp"
#include "storage/state/sqlite.hpp"

namespace rtrain::state {

Status add_audit(Database& database, AuditEnd& end, const std::vector<AuditRow>& rows);  // inside of a transaction
Result<AuditEnd> last_audit(Database& database);
Result<PageOf<AuditRow>> read_audit(Database& database, std::uint64_t after, PageBounds most);
Result<AuditEnd> check_audit(Database& database);  // the whole chain; damaged: the first row that does not follow

}  // namespace rtrain::state
