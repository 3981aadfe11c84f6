// Caches of torch.compile and Triton that outlive attempts: what one attempt has compiled, the next one loads.
//   <data>/caches/<entry>/        the agent's; its time is when an attempt last used it
//   <data>/caches/<entry>/files/  the user's, closed to others (0700): what lies there is loaded as code
// An entry is for one user, one Python environment, and one release of PyTorch and of Triton.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/workers/launcher.hpp"

namespace rtrain::agent {

inline constexpr std::int64_t cache_unused_ms = 30LL * 24 * 3600 * 1000;  // an entry without use goes after this
inline constexpr std::int64_t caches_most_bytes = std::int64_t{8} << 30;  // of all entries of a node
inline constexpr std::int64_t caches_look_ms = 3'600'000;                 // how often the node looks

// What a worker would run, as far as compiled code depends on it.
struct CompileEnvironment {
    WorkerUser user{};
    std::string token_user{};            // the run's user on the cluster
    std::string python{};                // the path of the interpreter
    std::vector<std::string> program{};  // the entrypoint; empty: it is known to run `python`
    std::map<std::string, std::string> variables{};
};

// Returns the name of the entry. It reads the versions of PyTorch and Triton beside the interpreter with the user's
// rights.
std::string cache_entry_of(const CompileEnvironment& environment);

// Makes the entry, or marks it as used, for the rank whose directory is `worker_directory`. Returns its `files`.
Result<std::string> open_cache(const std::string& data_dir, const std::string& entry, const WorkerUser& user,
                               const std::string& worker_directory);

struct CacheFacts {
    std::string entry;
    std::int64_t owner = 0, bytes = 0, used_wall_ms = 0;  // `owner`: the user id
    bool in_use = false;                                  // by an attempt on this node
};
// Returns the entries to remove: those without use for long; then, as long as all have more bytes than a node may keep,
// the one of the user with the most bytes that was used least recently. Never one in use.
std::vector<std::string> caches_to_remove(const std::vector<CacheFacts>& caches, std::int64_t now_wall_ms);

// Removes what `caches_to_remove` names. It blocks: it runs on the pool.
void bound_caches(const NodeFiles& files, std::int64_t now_wall_ms);

}  // namespace rtrain::agent
