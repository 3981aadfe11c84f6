// Run directories of earlier versions: an agent of root wrote them as root, and now acts in them as their user.
#pragma once

#include <string>

#include "daemon/agent/workers/launcher.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::agent {

// Gives the directory `run_name` at the storage path, and what root wrote in it, to `user`, if its run.json names
// `user_name`. Nothing is done for a directory that is not root's. A root-owned one is refused when run.json names
// nobody or somebody else, and when it holds what is no part of a run: it may be a directory of the system that a job
// once named.
Status hand_over_run(storage::Store& store, const std::string& run_name, const WorkerUser& user,
                     const std::string& user_name);

}  // namespace rtrain::agent
