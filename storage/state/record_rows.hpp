// Records as rows of the tables `records` and `snapshot`.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/controller.hpp"
#include "storage/state/sqlite.hpp"

namespace rtrain::state {

using RowKey = std::pair<std::string, std::string>;  // kind, key
struct Kept {                                        // of the rows on disk
    std::map<RowKey, std::string> unknown;           // members of a newer minor version, written back with the record
    std::set<AttemptId> in_parts;  // attempts with rows that lie over their own, until it is written again
    std::set<AttemptId> joined;    // attempts that the transaction under way took out of `in_parts`
    // A transaction that failed has removed no row.
    void take_back() { in_parts.merge(joined); }
};
struct Loaded {
    Cluster cluster;
    Kept kept;
};

Result<Loaded> load_records(Database& database, const std::string& table);
// A record with its JSON, which is made once: the row keeps it, the event its checksum.
struct Written {
    const Record* record = nullptr;
    std::string json;
};
Status save_records(Database& database, const std::vector<Written>& records,
                    Kept& kept);                                // of one transaction, in order
std::map<RowKey, std::string> as_rows(const Cluster& cluster);  // every record of it, encoded
std::int64_t checksum_of(const std::vector<Record>& records);
std::int64_t checksum_of(std::span<const Written> records);
std::string unknown_members(const std::string& text, const Record& record);

}  // namespace rtrain::state
