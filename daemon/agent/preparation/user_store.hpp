// The storage path of a mapped user. Below a path that a job's user can write, an agent of root acts with that user's
// rights alone: what he exchanges there leads nowhere that he could not have read or written himself.
#pragma once

#include <memory>

#include "daemon/agent/workers/user_rights.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::agent {

// The Store of `directory`: every call wears the user's rights at the storage path, and the agent's own at files on the
// agent's side. Users without a uid: the agent's own rights for both.
Result<std::shared_ptr<storage::Store>> open_user_store(const std::string& directory, const WorkerUser& user,
                                                        storage::Root look = storage::Root::seen,
                                                        storage::Links links = storage::Links::followed);

}  // namespace rtrain::agent
