// Short names for directories: a Unix socket's path has at most 107 bytes, and Python's multiprocessing makes sockets
// 36 bytes below TMPDIR. A short name is a link in a directory of the agent's own:
//   root's agent    /run/rtrain-<hash of the data directory>, where only root makes names (0711)
//   another agent   <data>/run where that is short, else a directory with a random name in /tmp or the like (0700),
//   whose
//                   path is in <data>/short-directory
// The links are removed with their attempts, the directory when an agent ends that has no attempt left. The next agent
// on the same data directory removes what an agent that was killed has left.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace rtrain::agent {

inline constexpr std::size_t short_name_most = 40;  // bytes
// The length of a directory that has room for short names, or for a socket, below it.
inline constexpr std::size_t for_links = short_name_most - 6, for_sockets = 80;

// Returns the directory, to which only this process's user can write. Its path has at most `most` bytes, and stays the
// same for a data directory as long as the directory is there.
Result<std::string> short_directory(const std::string& data_dir, std::size_t most);

// Removes the directory outside of the data directory that `short_directory` has made, with the links in it. It stays
// where other files are in it.
void remove_short_directory(const std::string& data_dir);

class ShortNames {
  public:
    ShortNames() = default;  // no short name is made
    explicit ShortNames(std::string directory) : directory_(std::move(directory)) {}

    // Returns a path of at most 40 bytes for the directory: its own, or a link to it. A link that is there is returned
    // again. An Error: no link could be made.
    Result<std::string> name_of(const std::string& directory) const;
    void remove(const std::string& target) const;
    void remove_all_but(const std::set<std::string>& targets) const;
    // Gives the links and their directory the present time: a machine may remove what is old in /tmp.
    void keep_fresh() const;

  private:
    std::string directory_{};
};

}  // namespace rtrain::agent
