// See file_rights.hpp. setfsuid and setfsgid apply to one thread. glibc's setgroups would change all threads; the
// system call does not.
#include "storage/uri/files/file_rights.hpp"

#include <grp.h>
#include <pwd.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rtrain::storage {
namespace {

constexpr int groups_first = 64;
// bytes of the buffer for a user's entry in NSS: the first try, and the most
constexpr std::size_t entry_first = 4'096, entry_most = 1 << 20;

bool set_groups(const std::vector<gid_t>& groups) {
    return ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
}

// Both calls return the earlier value. An impossible argument changes nothing, so they return the present value.
bool set_file_user(uid_t user) {
    ::setfsuid(user);
    return static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1))) == user;
}
bool set_file_group(gid_t group) {
    ::setfsgid(group);
    return static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1))) == group;
}

Error not_allowed(const std::string& name, const std::string& why) {
    return {ErrorCode::unauthorised, "acting at files as user " + name + why,
            "a daemon that acts as other users needs CAP_SETUID and CAP_SETGID"};
}

}  // namespace

std::vector<std::int64_t> groups_of(const std::string& user, std::int64_t group) {
    std::vector<gid_t> groups(groups_first);
    int count = groups_first;
    while (::getgrouplist(user.c_str(), static_cast<gid_t>(group), groups.data(), &count) < 0)
        groups.resize(static_cast<std::size_t>(count = std::max(count, static_cast<int>(groups.size()) * 2)));
    return {groups.begin(), groups.begin() + count};
}

std::optional<FileUser> other_owner(const struct stat& file) {
    if (::geteuid() != 0 || file.st_uid == 0) return std::nullopt;
    FileUser owner{.user = file.st_uid,
                   .group = file.st_gid,
                   .groups = {file.st_gid},
                   .name = "number " + std::to_string(file.st_uid)};
    std::vector<char> text(entry_first);
    struct passwd entry{}, *account = nullptr;
    while (::getpwuid_r(file.st_uid, &entry, text.data(), text.size(), &account) == ERANGE && text.size() < entry_most)
        text.resize(text.size() * 2);
    if (account == nullptr) return owner;  // this machine's NSS has no entry for the user
    owner.name = entry.pw_name;
    owner.group = entry.pw_gid;
    const auto groups = groups_of(owner.name, entry.pw_gid);
    owner.groups.assign(groups.begin(), groups.end());
    return owner;
}

WornRights::WornRights(const std::optional<FileUser>& user) {
    if (!user) return;
    const int count = ::getgroups(0, nullptr);
    groups_before_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    if (count < 0 || ::getgroups(count, groups_before_.data()) != count || !set_groups(user->groups)) {
        taken_ = not_allowed(user->name, std::string(": ") + std::strerror(errno));
        return;
    }
    changed_ = true;
    user_before_ = static_cast<uid_t>(::setfsuid(static_cast<uid_t>(-1)));
    group_before_ = static_cast<gid_t>(::setfsgid(static_cast<gid_t>(-1)));
    if (!set_file_group(user->group) || !set_file_user(user->user))
        taken_ = not_allowed(user->name, " is not allowed here");
}

WornRights::~WornRights() {
    if (!changed_) return;
    const bool back = set_file_user(user_before_) && set_file_group(group_before_) && set_groups(groups_before_);
    RTRAIN_CHECK(back, "a thread cannot take its own rights back");
}

}  // namespace rtrain::storage
