// Whether a run may use its storage path with this agent's S3 credentials: the operator's rules (`--storage-rules`).
#pragma once

#include <string>

#include "storage/spec/storage_rules.hpp"

namespace rtrain::agent {

// The rules in the file. An Error that lists all problems; also for a file that others than root and this agent's user
// may write, or that lies in a directory where everybody may exchange it.
Result<spec::StorageRules> load_storage_rules(const std::string& file);

// Done when the rules in `rules_file` (empty: there are none) allow it. They are read again each time, so that a change
// counts without a restart; a file that cannot be used allows nothing.
Status may_use_storage(const std::string& rules_file, const spec::StorageUser& who, const std::string& storage_path);

}  // namespace rtrain::agent
