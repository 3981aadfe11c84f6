// The table of the audit: see audit.hpp. Its oldest rows move into segments, which are files below `audit/` in the data
// directory. A segment is one zstd frame of rows as lines of JSON. Its name is the number of its first row. The chain
// of hashes runs through all segments and then through the table.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "storage/state/audit.hpp"
#include "storage/state/codec/pages.hpp"
#include "storage/state/sqlite.hpp"

namespace rtrain::state {

// Requires an open transaction.
Status add_audit(Database& database, AuditEnd& end, const std::vector<AuditRow>& rows);
Result<AuditEnd> last_audit(Database& database);
Result<PageOf<AuditRow>> read_audit(Database& database, std::uint64_t after, PageBounds most);
std::int64_t audit_row_bytes(const AuditRow& row);
// Returns the bytes of all rows in the table by user.
Result<std::map<std::string, std::int64_t>> audit_bytes(Database& database);
// adds rows to the page `to`
Result<PageOf<AuditRow>> read_audit(Database& database, std::uint64_t after, Filling<AuditRow> to);
std::size_t text_bytes(const AuditRow& row);
// Checks the chain of hashes in the table, which continues the last segment. Returns `damaged` with the first row that
// does not follow.
Result<AuditEnd> check_audit(Database& database);

// ---- segments (audit_archive.cpp)
// Returns the last row that segments hold. The table need not hold it or any row before it.
Result<AuditEnd> archived_audit(Database& database);
// Stores `end` and removes the rows up to it from the table. Requires an open transaction.
Status write_archived_audit(Database& database, const AuditEnd& end);
std::string audit_folder(const std::string& data_directory);
// Writes a segment, which is durable when this returns. The same segment may be written again.
Status write_segment(const std::string& folder, const std::vector<AuditRow>& rows);
// Passes the rows with numbers above `after`, up to `end`, to `take`, oldest first, until `take` returns false. Returns
// `damaged` if rows are missing.
Status read_segments(const std::string& folder, std::uint64_t after, std::uint64_t end,
                     const std::function<bool(AuditRow&&)>& take);
// Checks the chain of hashes through all segments. Its last row must be `end`.
Status check_segments(const std::string& folder, const AuditEnd& end);
// Like read_audit, but reads the segments before the table.
Result<PageOf<AuditRow>> read_whole_audit(Database& database, const std::string& folder, std::uint64_t after,
                                          PageBounds most);

}  // namespace rtrain::state
