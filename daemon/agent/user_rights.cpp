// setfsuid and its like count for one thread; glibc's setgroups would change all of them, the system call does not.
#include "daemon/agent/user_rights.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rtrain::agent {
namespace {

constexpr int groups_first = 64;

bool set_groups(const std::vector<gid_t>& groups) {
    return ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
}

// These two answer with what was before; asked for what cannot be, with what is.
bool set_file_user(uid_t user) {
    ::setfsuid(user);
    return static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))) == user;
}
bool set_file_group(gid_t group) {
    ::setfsgid(group);
    return static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1))) == group;
}

}  // namespace

std::vector<std::int64_t> groups_of(const std::string& user, std::int64_t group) {
    std::vector<gid_t> groups(groups_first);
    int count = groups_first;
    while (::getgrouplist(user.c_str(), static_cast<gid_t>(group), groups.data(), &count) < 0)
        groups.resize(static_cast<std::size_t>(count = std::max(count, static_cast<int>(groups.size()) * 2)));
    return {groups.begin(), groups.begin() + count};
}

UserRights::UserRights(const WorkerUser& user) : user_(user), groups_(user.groups.begin(), user.groups.end()) {
    if (others() && groups_.empty()) groups_.push_back(static_cast<gid_t>(user.gid));
}

UserRights::Worn::Worn(const UserRights& rights) {
    if (!rights.others()) return;
    const int count = ::getgroups(0, nullptr);
    groups_before_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    if (count < 0 || ::getgroups(count, groups_before_.data()) != count || !set_groups(rights.groups_)) {
        taken_ =
            Error{ErrorCode::unauthorised, "acting at files as user " + rights.name() + ": " + std::strerror(errno),
                  "an agent that gives workers another user needs CAP_SETUID and CAP_SETGID"};
        return;
    }
    changed_ = true;
    user_before_ = static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1)));
    group_before_ = static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1)));
    if (!set_file_group(static_cast<gid_t>(rights.user_.gid)) || !set_file_user(static_cast<uid_t>(rights.user_.uid)))
        taken_ = Error{ErrorCode::unauthorised, "acting at files as user " + rights.name() + " is not allowed here",
                       "an agent that gives workers another user needs CAP_SETUID and CAP_SETGID"};
}

UserRights::Worn::~Worn() {
    if (!changed_) return;
    const bool back = set_file_user(user_before_) && set_file_group(group_before_) && set_groups(groups_before_);
    RTRAIN_CHECK(back, "a thread of the agent cannot take its own rights back");
}

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
