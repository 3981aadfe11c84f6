// A root agent acts with the rights of the job's user wherever that user can write: a link, or a name that is exchanged
// while the agent looks, then leads nowhere that the user could not have read or written himself.
#pragma once

#include <sys/types.h>

#include <vector>

#include "daemon/agent/launcher.hpp"
#include "storage/uri/descriptor.hpp"

namespace rtrain::agent {

inline constexpr const char* unreadable_next = "make it readable to the run's user, or leave it out of the checkpoint";

// Returns the numbers of all groups of the user; `group` is the one of the user's entry. Asks NSS, which may be a
// directory service that takes its time: not for the agent's loop.
std::vector<std::int64_t> groups_of(const std::string& user, std::int64_t group);

class UserRights {
  public:
    explicit UserRights(const WorkerUser& user);  // uid -1: the agent's own rights
    bool others() const { return user_.uid >= 0; }
    bool owns(uid_t owner) const { return static_cast<std::int64_t>(owner) == user_.uid; }
    const std::string& name() const { return user_.name; }

    // This thread's rights at files, until it goes out of scope; then those that the thread had before. Nothing may be
    // opened when `taken` says an error.
    class Worn {
      public:
        explicit Worn(const UserRights& rights);
        ~Worn();
        Worn(const Worn&) = delete;
        Worn& operator=(const Worn&) = delete;
        const Status& taken() const { return taken_; }

      private:
        uid_t user_before_ = 0;
        gid_t group_before_ = 0;
        std::vector<gid_t> groups_before_;
        bool changed_ = false;
        Status taken_ = Done{};
    };

    // A regular file that the user may read. Links are followed, with the user's rights.
    Result<storage::Descriptor> open_file(const std::string& path) const;

  private:
    WorkerUser user_;
    std::vector<gid_t> groups_;
};

}  // namespace rtrain::agent
