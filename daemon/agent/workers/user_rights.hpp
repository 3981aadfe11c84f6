// A root agent uses the rights of the job's user wherever that user can write. A link, or a name that is exchanged
// meanwhile, then leads only to files that the user could access anyway.
#pragma once

#include <sys/types.h>

#include <vector>

#include "base/descriptor.hpp"
#include "daemon/agent/workers/launcher.hpp"
#include "storage/uri/files/file_rights.hpp"

namespace rtrain::agent {

inline constexpr const char* unreadable_next = "make it readable to the run's user, or leave it out of the checkpoint";

class UserRights {
  public:
    explicit UserRights(const WorkerUser& user);  // uid -1: the agent's own rights
    bool others() const { return user_.uid >= 0; }
    bool owns(uid_t owner) const { return static_cast<std::int64_t>(owner) == user_.uid; }
    const std::string& name() const { return user_.name; }

    // Holds a user's rights at files for this thread, until it goes out of scope.
    class Worn : public storage::WornRights {
      public:
        explicit Worn(const UserRights& rights);
    };

    // Opens a regular file that the user may read. Links are followed, with the user's rights.
    Result<storage::Descriptor> open_file(const std::string& path) const;

  private:
    WorkerUser user_;
    std::vector<gid_t> groups_;
};

}  // namespace rtrain::agent
