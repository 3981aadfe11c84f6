// Files that attempts leave on the node for later ones: code below <data>/code, environments of `setup:` below
// <data>/setups, checkpoints below <data>/checkpoints. An entry is removed after a long time without use, but never
// while an attempt on this node needs it.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace rtrain::agent {

inline constexpr const char* gone_prefix = ".gone-";  // prefix of a name that is being removed
inline constexpr std::int64_t day_ms = 24LL * 3600 * 1000;
inline constexpr std::int64_t code_unused_ms = 14 * day_ms, setup_unused_ms = 30 * day_ms, kept_unused_ms = 3 * day_ms;

// Each mutex is held from the search for a folder of code, or of a setup, until the folder is marked as used.
extern std::mutex code_mutex, setups_mutex;
void used_now(const std::string& path);

// Removes code, setups and kept checkpoints that were not used for long. Also completes interrupted removals. Blocks;
// call it on the pool. `in_use`: hashes of code and of drivers, keys of setups, ids of runs.
void remove_unused(const std::string& data_dir, const std::set<std::string>& in_use, std::int64_t now_wall_ms);

// Removes setups of users with more than `share` bytes of them, the least recently used first, but none in use. Blocks;
// call it on the pool.
void bound_setups(const std::string& data_dir, const std::set<std::string>& in_use, std::int64_t share,
                  std::int64_t now_wall_ms);

// Measures the files that a user keeps on this node, and removes the least recently used ones.
struct KeptSetup {
    std::string key;
    std::int64_t owner = 0, bytes = 0, used_wall_ms = 0;
    bool in_use = false;
};
std::vector<std::string> setups_to_remove(std::vector<KeptSetup> setups, std::int64_t share);

}  // namespace rtrain::agent
