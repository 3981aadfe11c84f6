// With whose rights a run's storage path is used: the agent's S3 credentials, within the operator's rules
// (`--storage-rules`), or credentials that the run's own secrets bring.
#pragma once

#include <memory>
#include <string>

#include "daemon/agent/workers/user_rights.hpp"
#include "daemon/protocol/orders.hpp"
#include "storage/job_spec/storage_rules.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::agent {

// Returns the rules in the file. An Error lists all problems; it comes also for a file that others than root and this
// agent's user may write, or that lies in a directory where everybody may exchange it.
Result<spec::StorageRules> load_storage_rules(const std::string& file);

// Where a run's files are read and written.
struct StoragePlace {
    std::string path;                                 // the storage path, or the directory that it leads to
    storage::Links links = storage::Links::followed;  // refused: the path was judged without any
};

// Returns the place of the path when the rules in `rules_file` (empty: there are none) allow it to the run. The file is
// read again each time, so that a change counts without a restart; a file that cannot be used allows nothing. Where
// rules name directories, the directory that the path leads to is judged, links followed with the rights of `user`, and
// used under its own name, so that no link leads out of it later. A run with credentials of its own may use every s3://
// path, but only a server that the operator names: the agent's own, or one of `endpoints`.
Result<StoragePlace> may_use_storage(const std::string& rules_file, const protocol::StorageAccess& access,
                                     const std::string& storage_path, const WorkerUser& user);

// The place of an attempt outlives a restart of the agent, and is not judged again. `kept_place` returns the storage
// path where none was kept.
Status keep_place(const StoragePlace& place, const std::string& attempt_directory);
StoragePlace kept_place(const std::string& storage_path, const std::string& attempt_directory);

// Returns the store of an s3:// path. Nothing is asked of the server yet.
Result<std::unique_ptr<storage::Store>> open_bucket(const protocol::StorageAccess& access,
                                                    const std::string& storage_path);

// A run's own credentials outlive a restart of the agent in a file of the attempt's directory, which only the agent's
// user can read (0600). `take_kept_credentials` reads them back where `access` has none.
Status keep_credentials(const protocol::StorageAccess& access, const std::string& attempt_directory);
void take_kept_credentials(protocol::StorageAccess& access, const std::string& attempt_directory);

}  // namespace rtrain::agent
