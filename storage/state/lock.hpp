// One writer for each data directory: a lock that the kernel releases when its owner ends, however it ends. The lock
// file also records that a database was made here, so that a lost database is not taken for a first start.
#pragma once

#include <string>

#include "base/result.hpp"

namespace rtrain::state {

class DirectoryLock {
  public:
    // Makes the directory (0700) if it is absent. Returns conflict with the owner's pid if another process holds the
    // lock.
    static Result<DirectoryLock> take(const std::string& directory);
    DirectoryLock(DirectoryLock&& other) noexcept;
    DirectoryLock& operator=(DirectoryLock&&) = delete;
    ~DirectoryLock();

    bool database_was_made() const { return database_was_made_; }
    Status database_is_made();

  private:
    DirectoryLock() = default;
    Status write_mark();
    int descriptor_ = -1;
    std::string path_;
    bool database_was_made_ = false;
};

}  // namespace rtrain::state
