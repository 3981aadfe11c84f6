// Records as rows of the tables `records` and `snapshot`.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "scheduler/controller.hpp"
#include "storage/state/sqlite.hpp"

namespace rtrain::state {

using RowKey = std::pair<std::string, std::string>;  // kind, key
struct Loaded {
    Cluster cluster;
    std::map<RowKey, std::string> unknown;  // members of a newer minor version, written back with the record
};

Result<Loaded> load_records(Database& database, const std::string& table);
Status save_record(Database& database, const Record& record, const std::map<RowKey, std::string>& unknown);
std::map<RowKey, std::string> as_rows(const Cluster& cluster);  // every record of it, encoded
std::int64_t checksum_of(const std::vector<Record>& records);
std::string unknown_members(const std::string& text, const Record& record);

}  // namespace rtrain::state
