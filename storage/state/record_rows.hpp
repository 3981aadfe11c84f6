// Records as rows of the tables `records` and `snapshot`.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/controller.hpp"
#include "storage/state/sqlite.hpp"

namespace rtrain::state {

using RowKey = std::pair<std::string, std::string>;  // kind, key
struct Loaded {
    Cluster cluster;
    std::map<RowKey, std::string> unknown;  // members of a newer minor version, written back with the record
};

Result<Loaded> load_records(Database& database, const std::string& table);
// A record with its JSON, which is made once: the row keeps it, the event its checksum.
struct Written {
    const Record* record = nullptr;
    std::string json;
};
Status save_records(Database& database, const std::vector<Written>& records,
                    const std::map<RowKey, std::string>& unknown);  // of one transaction, in order
std::map<RowKey, std::string> as_rows(const Cluster& cluster);      // every record of it, encoded
std::int64_t checksum_of(const std::vector<Record>& records);
std::int64_t checksum_of(std::span<const Written> records);
std::string unknown_members(const std::string& text, const Record& record);

}  // namespace rtrain::state
