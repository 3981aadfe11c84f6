// Estimates how many bytes records take in the head's memory and in its state database. Texts, names and parts are
// counted without encoding them.
#pragma once

#include "daemon/head/base/user_bytes.hpp"
#include "scheduler/controller.hpp"
#include "scheduler/model/records.hpp"

namespace rtrain::head {

// Returns the bytes of memory for a job's text, the nodes that it names, and its workers.
std::int64_t run_bytes(const Run& run);

KeptBytes bytes_of(const Run& run);
KeptBytes bytes_of(const Attempt& attempt);
KeptBytes bytes_of(const Checkpoint& checkpoint);

// Updates the counts after a record was decided.
void follow(UserBytes& bytes, const Record& record);
// Counts all records that the cluster has.
void follow(UserBytes& bytes, const Cluster& cluster);

}  // namespace rtrain::head
