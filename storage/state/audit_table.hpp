// The table of the audit: see audit.hpp.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "storage/state/audit.hpp"
#include "storage/state/pages.hpp"
#include "storage/state/sqlite.hpp"

namespace rtrain::state {

Status add_audit(Database& database, AuditEnd& end, const std::vector<AuditRow>& rows);  // inside of a transaction
Result<AuditEnd> last_audit(Database& database);
Result<PageOf<AuditRow>> read_audit(Database& database, std::uint64_t after, PageBounds most);
std::int64_t audit_row_bytes(const AuditRow& row);
Result<std::map<std::string, std::int64_t>> audit_bytes(Database& database);  // of all rows of each user
Result<AuditEnd> check_audit(Database& database);  // the whole chain; damaged: the first row that does not follow

}  // namespace rtrain::state
