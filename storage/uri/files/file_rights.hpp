// Lets a root process access files with the rights of another user in directories that this user can write. So a link,
// or a file that is exchanged at the same moment, leads to nothing that the user could not have read or written.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"

struct stat;

namespace rtrain::storage {

struct FileUser {
    uid_t user = 0;
    gid_t group = 0;
    std::vector<gid_t> groups;  // all groups of the user
    std::string name;           // name of the user, for messages
};

// Returns the numbers of all groups of the user. `group` is the group of the user's entry. Reads NSS, which may be a
// slow directory service.
std::vector<std::int64_t> groups_of(const std::string& user, std::int64_t group);

// Returns the owner of a file with all groups (NSS). Returns nullopt if it is this process's own user, or if this
// process is not root and cannot act as another user.
std::optional<FileUser> other_owner(const struct stat& file);

// Gives this thread a user's rights to files until the object goes out of scope. Then the thread has its earlier rights
// again. Nothing may be opened if `taken` contains an error. Without a user, the thread keeps its rights.
class WornRights {
  public:
    explicit WornRights(const std::optional<FileUser>& user);
    ~WornRights();
    WornRights(const WornRights&) = delete;
    WornRights& operator=(const WornRights&) = delete;
    const Status& taken() const { return taken_; }

  private:
    uid_t user_before_ = 0;
    gid_t group_before_ = 0;
    std::vector<gid_t> groups_before_;
    bool changed_ = false;
    Status taken_ = Done{};
};

}  // namespace rtrain::storage
