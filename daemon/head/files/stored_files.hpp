// Counts the files below cluster:// for the users of the runs in whose directories they lie. Follows what is written
// and removed. A walk over all files, on the pool, counts them anew at each start and each day. What is written during
// a walk may be missing until the next one. Used by the loop's thread only.
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
    struct Directory {           // a run's, below the storage root
        std::string name, user;  // the user that its run.json names; empty: none can be read
        std::int64_t bytes = 0;
    };
    StoredFiles(net::Background background, const View& view, const HeadOptions& options, UserBytes& bytes)
        : background_(background), view_(view), options_(options), bytes_(bytes) {}

    void count();                                            // all directories
    void recount(const std::string& name);                   // one directory, which may be gone
    void grew(const std::string& path, std::int64_t bytes);  // of a file below cluster://; less than 0: it shrank
    std::string owner_of(const std::string& path) const;     // the user whom a file there counts for; empty: no user

  private:
    std::string user_of(const std::string& name) const;
    void set(Directory directory);

    const net::Background background_;
    const View& view_;
    const HeadOptions& options_;
    UserBytes& bytes_;
    std::map<std::string, Directory> directories_;
};

// Wait for the disk. Links are not followed.
std::int64_t stored_bytes_below(const std::string& directory);
StoredFiles::Directory stored_directory(const std::string& root, const std::string& name);

}  // namespace rtrain::head
