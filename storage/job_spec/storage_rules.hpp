// The rules for where users and queues may keep runs: the file of `rtrain node join --storage-rules` (example:
// configs/storage-rules.yaml). Paths are normalised and compared by whole components; they are no patterns.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace rtrain::spec {

// A rule applies to a run whose user is in `users` and whose queue is in `queues`. An empty list means all.
struct StorageRule {
    std::vector<std::string> users, queues;
    std::vector<std::string> allow;  // normalised paths: "s3://bucket/prefix", "/mnt/shared", or "*" for all
    bool operator==(const StorageRule&) const = default;
};
struct StorageRules {
    std::vector<StorageRule> rules;
    std::vector<std::string> endpoints;  // servers of object stores for which a job's own credentials are accepted
    bool operator==(const StorageRules&) const = default;
};
struct StorageRulesAnswer {
    std::optional<StorageRules> rules;  // nullopt if there are problems
    Problems problems;                  // all problems, in the order of the file
};
StorageRulesAnswer read_storage_rules(const std::string& yaml_text);

// Returns "s3://bucket/prefix", "gs://bucket/prefix" or "/directory" without a slash at its end; "cluster://" for runs
// on the head. Returns an Error for an empty, '.' or '..' part in a bucket, and for a scheme that is not supported.
Result<std::string> normal_place(const std::string& storage_path);

// The user and queue of a run that wants to use a storage path.
struct StorageUser {
    std::string user, queue;
};
// True if a rule names a directory or "*". Only then do the rules restrict directories.
bool names_directories(const StorageRules& rules);
// Returns the directories of the rules that apply to `who`.
std::vector<std::string> allowed_directories(const StorageRules& rules, const StorageUser& who);
// Succeeds if a rule that applies to `who` allows the path or a path above it. cluster:// is always allowed.
// Directories are allowed unless a rule of the file names a directory (or "*"). The Error names the user and queue, the
// path, and what is allowed.
Status may_use(const StorageRules& rules, const StorageUser& who, const std::string& storage_path);

}  // namespace rtrain::spec
