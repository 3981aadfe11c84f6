// A process that is root acts with another user's rights wherever that user can write: a link, or a name that is
// exchanged while the process looks, then leads nowhere that the user could not have read or written himself.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/model/result.hpp"

struct stat;

namespace rtrain::storage {

struct FileUser {
    uid_t user = 0;
    gid_t group = 0;
    std::vector<gid_t> groups;  // all of them
    std::string name;           // for messages
};

// Returns the numbers of all groups of the user; `group` is the one of the user's entry. Asks NSS, which may be a
// directory service that takes its time.
std::vector<std::int64_t> groups_of(const std::string& user, std::int64_t group);

// Returns the owner of a file, with all groups (NSS); none: it is this process's own user, or this process is not root
// and cannot act as another one.
std::optional<FileUser> other_owner(const struct stat& file);

// Holds a user's rights at files for this thread, until it goes out of scope; then the thread has those of before.
// Nothing may be opened when `taken` says an error. Without a user: the thread's own.
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
