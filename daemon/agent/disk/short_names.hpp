// Short names for directories. A Unix socket's path has at most 107 bytes, and Python's multiprocessing makes sockets
// 36 bytes below TMPDIR. A short name is a link in one of the agent's directories:
//  root's agent    /run/rtrain-<hash of the data directory>, where only root makes names (0711)
//  another agent   <data>/run if that is short, otherwise a directory with a random name in /tmp or the like (0700);
//                  its path is in <data>/short-directory
// The links are removed with their attempts. An agent without attempts removes the directory at its end. The next agent
// on the same data directory removes the leftovers of a killed one.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace rtrain::agent {

inline constexpr std::size_t short_name_most = 40;  // bytes
// Bounds on the length of a directory that holds short names, or a socket.
inline constexpr std::size_t for_links = short_name_most - 6, for_sockets = 80;

// Returns the directory, to which only this process's user can write. Its path has at most `most` bytes, and stays the
// same for a data directory as long as the directory is there.
Result<std::string> short_directory(const std::string& data_dir, std::size_t most);

// Removes the directory that `short_directory` has made outside of the data directory, with its links. Keeps it if it
// holds other files.
void remove_short_directory(const std::string& data_dir);

class ShortNames {
  public:
    ShortNames() = default;  // makes no short names
    explicit ShortNames(std::string directory) : directory_(std::move(directory)) {}

    // Returns a path of at most 40 bytes for the directory: its own, or a link to it. Reuses an existing link. Fails if
    // no link could be made.
    Result<std::string> name_of(const std::string& directory) const;
    void remove(const std::string& target) const;
    void remove_all_but(const std::set<std::string>& targets) const;
    // Updates the times of the links and their directory, since a machine may remove old entries of /tmp.
    void keep_fresh() const;

  private:
    std::string directory_{};
};

}  // namespace rtrain::agent
