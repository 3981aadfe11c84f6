// The storage path of a mapped user. An agent of root accesses a path that a job's user can write only with that user's
// rights. So an exchanged name leads only to files that the user could access anyway.
#pragma once

#include <memory>

#include "daemon/agent/workers/user_rights.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::agent {

// Returns the Store of `directory`. Every call uses the user's rights at the storage path, and the agent's own for the
// agent's files. For a user without a uid both are the agent's own rights.
Result<std::shared_ptr<storage::Store>> open_user_store(const std::string& directory, const WorkerUser& user,
                                                        storage::Root look = storage::Root::seen,
                                                        storage::Links links = storage::Links::followed);

}  // namespace rtrain::agent
