// Which users and queues may keep runs where: the file of `rtrain node join --storage-rules`
// (configs/storage-rules.yaml shows one). Paths are compared by whole components after normalisation; nothing in them
// is a pattern.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/result.hpp"

namespace rtrain::spec {

// Holds for a run whose user is one of `users` and whose queue is one of `queues`; an empty list holds for all.
struct StorageRule {
    std::vector<std::string> users, queues;
    std::vector<std::string> allow;  // normal: "s3://bucket/prefix", "/mnt/shared", or "*"
    bool operator==(const StorageRule&) const = default;
};
struct StorageRules {
    std::vector<StorageRule> rules;
    std::vector<std::string> endpoints;  // S3 servers that a job's own credentials may be used with
    bool operator==(const StorageRules&) const = default;
};
struct StorageRulesAnswer {
    std::optional<StorageRules> rules;  // none when there are problems
    Problems problems;                  // all of them, in the file's order
};
StorageRulesAnswer read_storage_rules(const std::string& yaml_text);

// "s3://bucket/prefix" or "/directory" without a slash at its end, "cluster://" for runs on the head. An Error for what
// has an empty, '.' or '..' part in a bucket, and for a scheme that cannot be used.
Result<std::string> normal_place(const std::string& storage_path);

// The user and queue of a run that wants to use a storage path.
struct StorageUser {
    std::string user, queue;
};
// Done when a rule that holds for `who` allows the path or a path above it. cluster:// is always allowed; directories
// are, unless a rule of the file names a directory (or "*"). Else an Error that names who, the path, and what is
// allowed.
Status may_use(const StorageRules& rules, const StorageUser& who, const std::string& storage_path);

}  // namespace rtrain::spec
