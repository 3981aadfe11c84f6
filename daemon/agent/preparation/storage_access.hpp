// The rights with which a run's storage path is used: the agent's credentials for object stores, within the operator's
// rules
// (`--storage-rules`), or the credentials in the run's secrets.
#pragma once

#include <memory>
#include <string>

#include "daemon/agent/workers/user_rights.hpp"
#include "daemon/protocol/orders.hpp"
#include "storage/job_spec/storage_rules.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::agent {

// Returns the rules in the file. Fails with all problems of the file. Also fails if other users than root and this
// agent's user may write the file, or exchange it in its directory.
Result<spec::StorageRules> load_storage_rules(const std::string& file);

// The place where a run's files are read and written.
struct StoragePlace {
    std::string path;                                 // the storage path, or the directory to which it leads
    storage::Links links = storage::Links::followed;  // refused: the path was checked without links
};

// Returns the place of the path if the rules in `rules_file` (empty: no rules) allow it to the run. The file is read
// each time, so that a change needs no restart. An unusable file allows nothing. If rules name directories, the path's
// real directory is checked, with links followed by the rights of `user`. The real path is then used, so that no link
// can change it later. A run with its own credentials may use every bucket, but only on a server that the operator
// names: the agent's own, or one of `endpoints`.
Result<StoragePlace> may_use_storage(const std::string& rules_file, const protocol::StorageAccess& access,
                                     const std::string& storage_path, const WorkerUser& user);

// The place of an attempt is stored for the next agent, and is not checked again. `kept_place` returns the storage path
// if none was stored.
Status keep_place(const StoragePlace& place, const std::string& attempt_directory);
StoragePlace kept_place(const std::string& storage_path, const std::string& attempt_directory);

// Returns the store of a path in an object store. Sends no request yet, except for a token.
Result<std::unique_ptr<storage::Store>> open_bucket(const protocol::StorageAccess& access,
                                                    const std::string& storage_path);

// A run's own credentials are stored for the next agent in a file of the attempt's directory that only the agent's user
// can read (0600). `take_kept_credentials` reads them if `access` has none.
Status keep_credentials(const protocol::StorageAccess& access, const std::string& attempt_directory);
void take_kept_credentials(protocol::StorageAccess& access, const std::string& attempt_directory);

}  // namespace rtrain::agent
