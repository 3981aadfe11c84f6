// See user_rights.hpp.
#include "daemon/agent/workers/user_rights.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <optional>

namespace rtrain::agent {
namespace {

std::optional<storage::FileUser> file_user(const WorkerUser& user, const std::vector<gid_t>& groups) {
    if (user.uid < 0) return std::nullopt;
    return storage::FileUser{.user = static_cast<uid_t>(user.uid),
                             .group = static_cast<gid_t>(user.gid),
                             .groups = groups,
                             .name = user.name};
}

}  // namespace

UserRights::UserRights(const WorkerUser& user) : user_(user), groups_(user.groups.begin(), user.groups.end()) {
    if (others() && groups_.empty()) groups_.push_back(static_cast<gid_t>(user.gid));
}

UserRights::Worn::Worn(const UserRights& rights) : WornRights(file_user(rights.user_, rights.groups_)) {}

Result<storage::Descriptor> UserRights::open_file(const std::string& path) const {
    const Worn worn(*this);
    if (!worn.taken()) return worn.taken().error();
    storage::Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat facts{};
    if (!file.open() || ::fstat(file.number(), &facts) != 0) {
        const int error = errno;
        const bool refused = error == EACCES || error == EPERM;
        return Error{refused           ? ErrorCode::unauthorised
                     : error == ENOENT ? ErrorCode::not_found
                                       : ErrorCode::io,
                     "reading " + path + (others() ? " as user " + name() : "") + ": " + std::strerror(error),
                     refused ? unreadable_next : ""};
    }
    if (!S_ISREG(facts.st_mode)) return Error{ErrorCode::io, "reading " + path + ": it is not a regular file", ""};
    return file;
}

}  // namespace rtrain::agent
