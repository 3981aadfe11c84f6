// The table of the audit: see audit.hpp. Its oldest rows move into segments, which are files below `audit/` in the data
// directory: a segment is one zstd frame of rows as lines of JSON, named by the number of its first row. The chain of
// hashes goes through all segments and on through the table.
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

Status add_audit(Database& database, AuditEnd& end, const std::vector<AuditRow>& rows);  // inside of a transaction
Result<AuditEnd> last_audit(Database& database);
Result<PageOf<AuditRow>> read_audit(Database& database, std::uint64_t after, PageBounds most);
std::int64_t audit_row_bytes(const AuditRow& row);
Result<std::map<std::string, std::int64_t>> audit_bytes(Database& database);  // of all rows of each user in the table
Result<PageOf<AuditRow>> read_audit(Database& database, std::uint64_t after, Filling<AuditRow> to);  // adds to the page
std::size_t text_bytes(const AuditRow& row);
// Checks the chain in the table, from where the segments end; damaged: the first row that does not follow.
Result<AuditEnd> check_audit(Database& database);

// ---- segments (audit_archive.cpp)
// The last row that the table no longer has to hold. Everything up to it is in segments.
Result<AuditEnd> archived_audit(Database& database);
Status write_archived_audit(Database& database, const AuditEnd& end);  // and removes these rows; in a transaction
std::string audit_folder(const std::string& data_directory);
// Writes a segment, durable when this returns. The same segment may be written again.
Status write_segment(const std::string& folder, const std::vector<AuditRow>& rows);
// Gives the rows behind `after` up to `end`, oldest first, until `take` returns false. Damaged: some are missing.
Status read_segments(const std::string& folder, std::uint64_t after, std::uint64_t end,
                     const std::function<bool(AuditRow&&)>& take);
Status check_segments(const std::string& folder, const AuditEnd& end);  // the whole chain, which ends with `end`
// The same as read_audit, from the segments and then from the table.
Result<PageOf<AuditRow>> read_whole_audit(Database& database, const std::string& folder, std::uint64_t after,
                                          PageBounds most);

}  // namespace rtrain::state
