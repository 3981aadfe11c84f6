// Counts the files below cluster:// for the users of the runs' directories. Writes and removals update the counts. A
// walk over all files, on the pool, counts them again at each start and each day. Files written during a walk may be
// missing until the next one. Used by the loop's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/head/base/options.hpp"
#include "daemon/head/base/user_bytes.hpp"
#include "daemon/head/view/view.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::head {

class StoredFiles {
  public:
    struct Directory {           // a run's directory below the storage root
        std::string name, user;  // name of the directory; the user in its run.json, empty if that cannot be read
        std::int64_t bytes = 0;
    };
    StoredFiles(net::Background background, const View& view, const HeadOptions& options, UserBytes& bytes)
        : background_(background), view_(view), options_(options), bytes_(bytes) {}

    void count();                           // counts all directories again
    void recount(const std::string& name);  // counts one directory again; it may have been removed
    // adds to the count of a file below cluster://; negative: the file shrank
    void grew(const std::string& path, std::int64_t bytes);
    // the user for whom a file at this path counts; empty: no user
    std::string owner_of(const std::string& path) const;

  private:
    std::string user_of(const std::string& name) const;
    void set(Directory directory);

    const net::Background background_;
    const View& view_;
    const HeadOptions& options_;
    UserBytes& bytes_;
    std::map<std::string, Directory> directories_;
};

// The functions below block on the disk. They follow no links.
std::int64_t stored_bytes_below(const std::string& directory);
StoredFiles::Directory stored_directory(const std::string& root, const std::string& name);

}  // namespace rtrain::head
