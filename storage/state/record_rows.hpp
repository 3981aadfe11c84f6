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

using RowKey = std::pair<std::string, std::string>;  // a record's kind and key, which identify its row
struct Kept {                                        // facts about the rows on disk that are kept in memory
    // JSON members that a newer minor version wrote; they are written back with the record
    std::map<RowKey, std::string> unknown;
    std::set<AttemptId> in_parts;  // attempts that have rows on top of their own row, until that row is written again
    std::set<AttemptId> joined;    // attempts that the open transaction removed from `in_parts`
    // Restores `in_parts`. To be called if the transaction failed, since then no row was removed.
    void take_back() { in_parts.merge(joined); }
};
struct Loaded {
    Cluster cluster;
    Kept kept;
};

Result<Loaded> load_records(Database& database, const std::string& table);
// A record with its JSON, which is made only once for two uses: the row holds the JSON, and the event holds its
// checksum.
struct Written {
    const Record* record = nullptr;
    std::string json;
};
Status save_records(Database& database, const std::vector<Written>& records,
                    Kept& kept);  // saves the records of one transaction, in order; updates `kept`
// returns the rows of every record of the cluster: key -> JSON
std::map<RowKey, std::string> as_rows(const Cluster& cluster);
std::int64_t checksum_of(const std::vector<Record>& records);
std::int64_t checksum_of(std::span<const Written> records);
std::string unknown_members(const std::string& text, const Record& record);

}  // namespace rtrain::state
