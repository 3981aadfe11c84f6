// Run directories of earlier versions, which an agent of root wrote as root. The agent now accesses them as their user.
#pragma once

#include <string>

#include "daemon/agent/workers/launcher.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::agent {

// Gives the directory `run_name` at the storage path, and root's files in it, to `user`, if its run.json names
// `user_name`. Does nothing for a directory that is not root's. Refuses root's directory if run.json names no user or
// another one, or if the directory holds files of no run: it may be a system directory that a job once named.
Status hand_over_run(storage::Store& store, const std::string& run_name, const WorkerUser& user,
                     const std::string& user_name);

}  // namespace rtrain::agent
