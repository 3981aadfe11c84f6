// Caches of torch.compile and Triton that outlive attempts: the next attempt loads code that an earlier one has
// compiled.
//  <data>/caches/<entry>/        the agent's; its time is that of the last use by an attempt
//  <data>/caches/<entry>/files/  the user's, closed to others (0700), since its files are loaded as code
// An entry belongs to one user, one Python environment, and one release of PyTorch and of Triton.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/workers/launcher.hpp"

namespace rtrain::agent {

// An entry without use for this time is removed.
inline constexpr std::int64_t cache_unused_ms = 30LL * 24 * 3600 * 1000;
inline constexpr std::int64_t caches_most_bytes = std::int64_t{8} << 30;  // bound on all entries of a node
inline constexpr std::int64_t caches_look_ms = 3'600'000;                 // interval of the checks

// The parts of a worker's environment on which compiled code depends.
struct CompileEnvironment {
    WorkerUser user{};
    std::string token_user{};            // the run's user on the cluster
    std::string python{};                // the path of the interpreter
    std::vector<std::string> program{};  // the entrypoint; empty: it certainly runs `python`
    std::map<std::string, std::string> variables{};
};

// Returns the name of the entry. It reads the versions of PyTorch and Triton beside the interpreter with the user's
// rights.
std::string cache_entry_of(const CompileEnvironment& environment);

// Makes the entry, or marks it as used, for the rank with the directory `worker_directory`. Returns its `files`.
Result<std::string> open_cache(const std::string& data_dir, const std::string& entry, const WorkerUser& user,
                               const std::string& worker_directory);

struct CacheFacts {
    std::string entry;
    std::int64_t owner = 0, bytes = 0, used_wall_ms = 0;  // `owner`: the user id
    bool in_use = false;                                  // an attempt on this node uses it
};
// Returns the entries to remove: first those unused for long. Then, while all exceed the node's bound, the least
// recently used one of the user with the most bytes. Never one in use.
std::vector<std::string> caches_to_remove(const std::vector<CacheFacts>& caches, std::int64_t now_wall_ms);

// Removes the entries that `caches_to_remove` returns. Blocks; call it on the pool.
void bound_caches(const NodeFiles& files, std::int64_t now_wall_ms);

}  // namespace rtrain::agent
