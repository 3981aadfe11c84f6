// With whose rights a run's storage path is used: the agent's S3 credentials, within the operator's rules
// (`--storage-rules`), or credentials that the run's own secrets bring.
#pragma once

#include <memory>
#include <string>

#include "daemon/protocol/orders.hpp"
#include "storage/spec/storage_rules.hpp"
#include "storage/uri/files/store.hpp"

namespace rtrain::agent {

// Returns the rules in the file. An Error lists all problems; it comes also for a file that others than root and this
// agent's user may write, or that lies in a directory where everybody may exchange it.
Result<spec::StorageRules> load_storage_rules(const std::string& file);

// Returns Done when the rules in `rules_file` (empty: there are none) allow the run the path. The file is read again
// each time, so that a change counts without a restart; a file that cannot be used allows nothing. A run with
// credentials of its own may use every s3:// path, but only a server that the operator names: the agent's own, or one
// of `endpoints`.
Status may_use_storage(const std::string& rules_file, const protocol::StorageAccess& access,
                       const std::string& storage_path);

// Returns the store of an s3:// path. Nothing is asked of the server yet.
Result<std::unique_ptr<storage::Store>> open_bucket(const protocol::StorageAccess& access,
                                                    const std::string& storage_path);

// A run's own credentials outlive a restart of the agent in a file of the attempt's directory, which only the agent's
// user can read (0600). `take_kept_credentials` reads them back where `access` has none.
Status keep_credentials(const protocol::StorageAccess& access, const std::string& attempt_directory);
void take_kept_credentials(protocol::StorageAccess& access, const std::string& attempt_directory);

}  // namespace rtrain::agent
