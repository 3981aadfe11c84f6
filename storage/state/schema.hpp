// The tables of the database, and the checks at every opening. Each row that matters ends with a checksum over its
// other columns, since SQLite does not notice a changed byte inside of a value.
#pragma once

#include <string>

#include "storage/state/sqlite.hpp"

namespace rtrain::state {

inline constexpr int schema_version = 5;
inline constexpr const char* database_name = "state.db";
inline constexpr const char* setting_prefix = "head.";  // begins the keys of the head's own settings

std::int64_t checksum(const Values& values);
// Runs INSERT OR REPLACE, and adds the row's checksum.
Status insert_row(Database& database, const std::string& table, Values values);

Status configure(Database& database);         // sets journal mode WAL and synchronous FULL
Status create_tables(Database& database);     // Requires an empty database.
Status bring_up_to_date(Database& database);  // Migrates the tables of an older version. Call check_whole first.
// Checks that the file is whole, is rtrain's and has a version that this program reads. Returns damaged or conflict
// otherwise.
Status check_whole(Database& database);
Result<bool> is_empty(Database& database);

// Returns an empty text if the setting is absent.
Result<std::string> read_setting(Database& database, const std::string& key);
Status write_setting(Database& database, const std::string& key, const std::string& value);

}  // namespace rtrain::state
