// Estimates the bytes of records in the head's memory and in its state database: texts, names and parts, counted
// without encoding them.
#pragma once

#include "daemon/head/base/user_bytes.hpp"
#include "scheduler/controller.hpp"
#include "scheduler/model/records.hpp"

namespace rtrain::head {

// Returns the bytes in memory of a job's text, the nodes that it names, and its workers.
std::int64_t run_bytes(const Run& run);

KeptBytes bytes_of(const Run& run);
KeptBytes bytes_of(const Attempt& attempt);
KeptBytes bytes_of(const Checkpoint& checkpoint);

// Follows a record that was decided.
void follow(UserBytes& bytes, const Record& record);
// Counts all records that the cluster has.
void follow(UserBytes& bytes, const Cluster& cluster);

}  // namespace rtrain::head
