// The tables of the database, and the checks that every opening makes. Each row that matters ends with a checksum over
// its other columns, since SQLite itself does not notice a changed byte inside a value.
#pragma once

#include <string>

#include "storage/state/sqlite.hpp"

namespace rtrain::state {

inline constexpr int schema_version = 5;
inline constexpr const char* database_name = "state.db";

std::int64_t checksum(const Values& values);
Status insert_row(Database& database, const std::string& table, Values values);  // INSERT OR REPLACE, with its checksum

Status configure(Database& database);         // WAL, synchronous FULL
Status create_tables(Database& database);     // in an empty database
Status bring_up_to_date(Database& database);  // the tables of an older version; after check_whole
// Whole, ours, and of a version that we can read: else damaged or conflict.
Status check_whole(Database& database);
Result<bool> is_empty(Database& database);

Result<std::string> read_setting(Database& database, const std::string& key);  // empty when absent
Status write_setting(Database& database, const std::string& key, const std::string& value);

}  // namespace rtrain::state
