// Changes owners and modes by descriptor, only of directories that are no links.
#include "daemon/agent/preparation/places.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/descriptor.hpp"
#include "daemon/agent/preparation/setup.hpp"
#include "daemon/agent/preparation/start_directory.hpp"
#include "daemon/agent/preparation/unused.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::agent {
namespace {

namespace fs = std::filesystem;
using storage::Descriptor;

Error failed(const std::string& doing, const std::string& path) {
    return {ErrorCode::io, doing + " " + path + ": " + std::strerror(errno), ""};
}

Descriptor open_directory(const std::string& path) {
    return Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

struct stat facts_of(const Descriptor& directory) {
    struct stat facts{};
    facts.st_uid = static_cast<uid_t>(-1);  // no valid uid, if the directory cannot be read
    if (directory.open()) ::fstat(directory.number(), &facts);
    return facts;
}

void set_mode(const std::string& path, mode_t mode) {
    const Descriptor directory = open_directory(path);
    if (directory.open() && (facts_of(directory).st_mode & 07777) != mode) ::fchmod(directory.number(), mode);
}

// Returns true if workers run whose agent, an older one, did not list the contents of start directories. They read
// <data>/code.
bool workers_of_before(const NodeFiles& files) {
    std::error_code failed, unseen;
    for (const auto& attempt : fs::directory_iterator(files.attempts(), failed))
        for (const auto& rank : fs::directory_iterator(attempt.path(), unseen))
            if (fs::exists(rank.path() / "cwd", unseen) && !fs::exists(rank.path().string() + code_list_name, unseen))
                return true;
    return false;
}

Status give(const Descriptor& directory, const std::string& path, const WorkerUser& user, mode_t mode) {
    if (user.uid >= 0 && ::fchown(directory.number(), static_cast<uid_t>(user.uid), static_cast<gid_t>(user.gid)) != 0)
        return failed("giving to user " + user.name + " the directory", path);
    return ::fchmod(directory.number(), mode) == 0 ? Status(Done{}) : failed("closing to other users", path);
}

}  // namespace

std::string exchangeable(const std::string& path) {
    std::error_code failed;
    fs::path at = fs::weakly_canonical(fs::absolute(path, failed), failed);
    while (at.has_relative_path()) {
        at = at.parent_path();
        struct stat facts{};
        if (::stat(at.c_str(), &facts) != 0) continue;  // it is made later
        if (facts.st_uid != 0 && facts.st_uid != ::geteuid())
            return at.string() + " belongs to uid " + std::to_string(facts.st_uid);
        if ((facts.st_mode & 0022) != 0 && (facts.st_mode & S_ISVTX) == 0)
            return "others than its owner can write to " + at.string();
    }
    return {};
}

Status check_data_directory(const std::string& path) {
    struct stat facts{};
    if (::geteuid() != 0) return Done{};
    const bool there = ::stat(path.c_str(), &facts) == 0;
    if (there && (facts.st_uid != 0 || (facts.st_mode & 0022) != 0))
        return Error{ErrorCode::unauthorised,
                     "users other than root can write to " + path + ": root's agent would believe what they put there",
                     "chown root " + path + " && chmod go-w " + path + ", or choose another --data directory"};
    if (const std::string why = exchangeable(path); !why.empty())
        return Error{ErrorCode::unauthorised,
                     why + ", so others can exchange " + path + ": root's agent would believe what they put there",
                     "choose another --data directory"};
    return Done{};
}

Status make_scratch_directory(const std::string& path) {
    if (Status above = make_directory(fs::path(path).parent_path(), 0711); !above) return above;
    if (::mkdir(path.c_str(), 0711) != 0 && errno != EEXIST) return failed("making", path);
    const struct stat facts = facts_of(open_directory(path));
    std::string why = facts.st_uid == ::geteuid() && (facts.st_mode & 0022) == 0 ? "" : path + " is somebody else's";
    if (why.empty() && ::geteuid() == 0) why = exchangeable(path);
    if (why.empty()) return Done{};
    return Error{ErrorCode::conflict, why + ": scratch directories of jobs cannot be kept there",
                 "remove it, or choose another --scratch directory"};
}

void keep_apart(const NodeFiles& files) {
    set_mode(files.data_dir + "/code", workers_of_before(files) ? 0711 : 0700);
    set_mode(setups_below(files.data_dir), 0711);
    std::error_code failed;
    for (const auto& setup : fs::directory_iterator(setups_below(files.data_dir), failed))
        if (facts_of(open_directory(setup.path().string())).st_uid != ::geteuid())
            set_mode(setup.path().string(), 0700);
}

Status own_directory(const std::string& path) {
    if (Status status = make_directory(fs::path(path).parent_path(), 0711); !status) return status;
    if (::mkdir(path.c_str(), 0700) == 0) return Done{};
    if (errno != EEXIST) return failed("making", path);
    const Descriptor there = open_directory(path);
    if (facts_of(there).st_uid == ::geteuid()) return give(there, path, {}, 0700);
    const std::string gone = path + gone_prefix + security::random_hex(8);
    if (::rename(path.c_str(), gone.c_str()) != 0 || ::mkdir(path.c_str(), 0700) != 0) return failed("making", path);
    remove_tree(gone);
    return Done{};
}

Status lend_directory(const std::string& path, const WorkerUser& user) {
    const Descriptor directory = open_directory(path);
    if (!directory.open()) return failed("opening", path);
    // 0500 for its own directory, which the agent must be able to remove.
    return give(directory, path, user, user.uid < 0 ? 0700 : 0500);
}

Status make_scratch(const std::string& path, const WorkerUser& user) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return failed("making", path);
    const Descriptor directory = open_directory(path);
    const uid_t owner = facts_of(directory).st_uid, wanted = user.uid < 0 ? ::geteuid() : static_cast<uid_t>(user.uid);
    if (owner == wanted || owner == ::geteuid()) return give(directory, path, user, 0700);
    return Error{ErrorCode::conflict, path + " belongs to another user", "remove it"};
}

}  // namespace rtrain::agent
