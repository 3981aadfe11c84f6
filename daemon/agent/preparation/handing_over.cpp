// Changes owners by descriptors alone. Follows no link. Files with a second name, and other file systems, stay root's.
// run.json changes its owner last, so that an interrupted hand-over is repeated.
#include "daemon/agent/preparation/handing_over.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/checkpoint_name.hpp"
#include "daemon/agent/workers/user_rights.hpp"
#include "storage/checkpoint/run_directory.hpp"
#include "storage/uri/files/tree.hpp"

namespace rtrain::agent {
namespace {

using storage::Descriptor;

constexpr std::string_view header_name = "run.json";

bool is_of_a_run(const std::string& name) {
    for (const std::string_view own_name :
         {"code", "driver.pkl", "attempts", "logs", "names", "result.json", ".staging"})
        if (name == own_name) return true;
    if (name == header_name || name.starts_with(".rtrain-")) return true;
    const auto tag = name.rfind("-a");  // a checkpoint such as whatever-a001
    return tag != std::string::npos && tag + 2 < name.size() &&
           name.find_first_not_of("0123456789", tag + 2) == std::string::npos;
}

// Returns true if every entry of the run's directory, or of one with checkpoints, is known: the run's own files at its
// top, and the claimed checkpoints. A directory in `claims` holds the claims of deeper checkpoints.
bool is_all_of_a_run(const Descriptor& directory, const std::optional<Descriptor>& claims, std::size_t level = 0) {
    const auto names = storage::names_in(directory);
    if (!names || level > storage::checkpoint_parts_most) return false;
    return std::all_of(names->begin(), names->end(), [&](const std::string& name) {
        if (level == 0 && is_of_a_run(name)) return true;
        const auto claim = claims ? storage::open_beneath(*claims, name, O_PATH) : Result<Descriptor>(Error{});
        struct stat seen{};
        if (!claim || ::fstat(claim->number(), &seen) != 0) return false;
        if (!S_ISDIR(seen.st_mode)) return true;
        const auto below = storage::open_beneath(directory, name, O_RDONLY | O_DIRECTORY);
        auto deeper = storage::open_beneath(*claims, name, O_RDONLY | O_DIRECTORY);
        return below && deeper && is_all_of_a_run(*below, std::move(*deeper), level + 1);
    });
}

bool is_all_of_a_run(const Descriptor& run) {
    auto claims = storage::open_beneath(run, "names", O_RDONLY | O_DIRECTORY);
    return is_all_of_a_run(run, claims ? std::optional(std::move(*claims)) : std::nullopt);
}

class HandingOver {
  public:
    HandingOver(const WorkerUser& user, dev_t device) : user_(user), device_(device) {}

    Status entries(const Descriptor& directory, int level) const {
        if (level > storage::levels_most) return Done{};
        const auto names = storage::names_in(directory);
        if (!names) return names.error();
        for (const std::string& name : *names)
            if (level > 0 || name != header_name)
                if (Status given = entry(directory, name, level); !given) return given;
        return Done{};
    }

    Status give(const Descriptor& opened, const std::string& name) const {
        if (::fchownat(opened.number(), "", static_cast<uid_t>(user_.uid), static_cast<gid_t>(user_.gid),
                       AT_EMPTY_PATH) == 0)
            return Done{};
        return Error{ErrorCode::io, "giving " + name + " to user " + user_.name + ": " + std::strerror(errno), ""};
    }

  private:
    Status entry(const Descriptor& directory, const std::string& name, int level) const {
        const auto opened = storage::open_beneath(directory, name, O_PATH);
        struct stat seen{};
        if (!opened || ::fstat(opened->number(), &seen) != 0) return Done{};  // a link, or removed
        const bool is_directory = S_ISDIR(seen.st_mode);
        if (seen.st_uid != 0 || seen.st_dev != device_) return Done{};
        if (!is_directory && !(S_ISREG(seen.st_mode) && seen.st_nlink == 1)) return Done{};
        if (is_directory) {  // a directory changes its owner last, so that only root changes its entries until then
            const auto below = storage::open_beneath(*opened, "", O_RDONLY | O_DIRECTORY);
            if (!below) return below.error();
            if (Status given = entries(*below, level + 1); !given) return given;
        }
        return give(*opened, name);
    }

    const WorkerUser& user_;
    dev_t device_;
};

// Returns true if the user can reach the storage path. Otherwise the probe, which runs as the user, reports the error,
// and root reveals nothing about the path.
bool is_reached_by(const WorkerUser& user, storage::Store& store) {
    const UserRights::Worn worn{UserRights(user)};
    return worn.taken() && store.top();
}

bool is_root_s_alone(const Descriptor& header, const struct stat& directory) {
    struct stat seen{};
    return ::fstat(header.number(), &seen) == 0 && seen.st_uid == 0 && S_ISREG(seen.st_mode) && seen.st_nlink == 1 &&
           (directory.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Returns why the run is not handed over to this user; empty if it is.
std::string not_the_user_s(const storage::RunHeader& recorded, const WorkerUser& user, const std::string& user_name) {
    if (recorded.user.empty()) return "its run.json names no user";
    if (recorded.user != user.name || recorded.user != user_name)
        return "it is the run of user '" + recorded.user + "'";
    return "";
}

}  // namespace

// Checks and reads everything through descriptors of one directory, so that an exchanged name on its path cannot
// redirect the change of owner.
Status hand_over_run(storage::Store& store, const std::string& run_name, const WorkerUser& user,
                     const std::string& user_name) {
    const std::string place = store.local_path(run_name);
    const auto refuse = [&](const std::string& why) {
        return Error{ErrorCode::unauthorised, place + " belongs to root: " + why,
                     "the administrator hands it over with: chown -R -h " + user.name + " " + place};
    };
    if (user.uid < 0) return Done{};
    if (!is_reached_by(user, store)) return Done{};
    const auto top = store.top();
    if (!top) return Done{};  // the probe reports whether it can be made
    const auto directory = storage::open_beneath(*top, run_name, O_PATH | O_DIRECTORY);
    struct stat seen{};
    // If root may not read it (a file system that maps root to nobody), root has made nothing there. A link is refused
    // later.
    if (!directory || ::fstat(directory->number(), &seen) != 0 || seen.st_uid != 0) return Done{};
    const auto run = storage::open_beneath(*directory, "", O_RDONLY | O_DIRECTORY);
    if (!run) return refuse(run.error().message);
    const auto opened = storage::open_beneath(*run, std::string(header_name), O_RDONLY | O_NONBLOCK);
    if (!opened && opened.error().code == ErrorCode::not_found) return refuse("it holds no run.json");
    if (!opened) return opened.error();
    if (!is_root_s_alone(*opened, seen)) return refuse("its run.json is not root's alone");
    if (!is_all_of_a_run(*run)) return refuse("what is in it is not all of a run");
    const auto text = storage::read_opened(*opened, place + "/run.json");
    const auto recorded = text ? storage::decode_run(*text, place + "/run.json") : text.error();
    if (!recorded) return recorded.error();
    if (const std::string why = not_the_user_s(*recorded, user, user_name); !why.empty()) return refuse(why);
    const HandingOver handing(user, seen.st_dev);
    if (Status given = handing.entries(*run, 0); !given) return given;
    if (Status given = handing.give(*opened, std::string(header_name)); !given) return given;
    return handing.give(*run, run_name);
}

}  // namespace rtrain::agent
