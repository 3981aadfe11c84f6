#include "storage/uri/files/tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "storage/uri/files/disk.hpp"
#include "storage/uri/files/file_rights.hpp"

namespace rtrain::storage {
namespace {

constexpr int opened_directory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

Status refuse_level(const std::string& path, int level) {
    if (level < levels_most) return Done{};
    return Error{ErrorCode::invalid, path + ": directories are nested deeper than " + std::to_string(levels_most),
                 "remove the deepest ones"};
}

// true if the entry was removed, or replaced by another file, since its name was read
bool exchanged(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP; }

}  // namespace

namespace {

// Calls `take` with each name in the directory until `take` returns false.
template <class Take>
Status each_name(const Descriptor& directory, const Take& take) {
    const int own = ::openat(directory.number(), ".", opened_directory);
    DIR* const stream = own < 0 ? nullptr : ::fdopendir(own);
    if (stream == nullptr) {
        const int error = errno;
        if (own >= 0) ::close(own);
        return disk::failure("listing", shown(directory, ""), error);
    }
    int error = 0;
    for (bool more = true; more;) {
        errno = 0;
        const dirent* entry = ::readdir(stream);
        error = errno;
        if (entry == nullptr) break;
        const std::string name = entry->d_name;
        if (name != "." && name != "..") more = take(name);
    }
    ::closedir(stream);
    if (error != 0) return disk::failure("listing", shown(directory, ""), error);
    return Done{};
}

}  // namespace

Result<std::vector<std::string>> names_in(const Descriptor& directory, std::size_t most) {
    std::vector<std::string> names;
    const Status listed = each_name(directory, [&](const std::string& name) {
        names.push_back(name);
        return names.size() < most;
    });
    if (!listed) return listed.error();
    std::sort(names.begin(), names.end());
    return names;
}

namespace {

// Calls `take` with each regular file and link below the directory.
template <class Take>
Status walk(const Descriptor& directory, const std::string& prefix, const Take& take, int level) {
    if (Status fine = refuse_level(prefix, level); !fine) return fine;
    const auto names = names_in(directory);
    if (!names) return names.error();
    for (const std::string& name : *names) {
        struct stat seen{};
        if (disk::is_temporary(name)) continue;  // skips unfinished files, and a run's directory that is being removed
        // the file was removed since its name was read
        if (::fstatat(directory.number(), name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (S_ISREG(seen.st_mode) || S_ISLNK(seen.st_mode))
            take(prefix + name, static_cast<std::int64_t>(seen.st_size), S_ISLNK(seen.st_mode));
        if (!S_ISDIR(seen.st_mode)) continue;
        const Descriptor below(::openat(directory.number(), name.c_str(), opened_directory));
        if (!below.open() && exchanged(errno)) continue;
        if (!below.open()) return disk::failure("listing", shown(directory, name), errno);
        if (Status walked = walk(below, prefix + name + "/", take, level + 1); !walked) return walked;
    }
    return Done{};
}

// The position of a walk through a tree. It holds the directories above the position open, so going up by ".." does not
// access the file system.
class Within {
  public:
    Within(const Descriptor& top, std::string top_path) : top_(top), top_path_(std::move(top_path)) {}

    // Opens `path` from the position. Returns an errno; 0: `opened` is open. EXDEV: the path leads out of the tree.
    int open(const std::string& path, int flags, Descriptor& opened) {
        std::vector<std::string> todo;
        int links = 0;
        int error = enter(path, todo);
        while (error == 0 && !todo.empty()) {
            const std::string part = std::move(todo.back());
            todo.pop_back();
            if (part.empty() || part == ".") continue;
            if (part == ".." && above_.empty()) return EXDEV;
            if (part == "..") {
                above_.pop_back();
                continue;
            }
            char target[4096];
            const ssize_t length = ::readlinkat(at(), part.c_str(), target, sizeof target);
            if (length >= 0) {
                if (++links > links_most || length == sizeof target) return ELOOP;
                error = enter(std::string(target, static_cast<std::size_t>(length)), todo);
                continue;
            }
            const bool last = todo.empty();
            Descriptor next(::openat(at(), part.c_str(), last ? flags | O_NOFOLLOW | O_CLOEXEC : opened_directory));
            if (!next.open()) return errno;
            if (last) opened = std::move(next);
            if (!last) above_.push_back(std::move(next));
        }
        if (error == 0 && !opened.open()) return EISDIR;
        return error;
    }

  private:
    static constexpr int links_most = 40;

    int at() const { return above_.empty() ? top_.number() : above_.back().number(); }

    int enter(std::string path, std::vector<std::string>& todo) {
        if (path.starts_with('/')) {
            if (!path.starts_with(top_path_ + "/")) return EXDEV;
            above_.clear();
            path.erase(0, top_path_.size() + 1);
        }
        while (!path.empty()) {  // The parts of the path are stored in reverse, so the last part is put first.
            const std::size_t slash = path.rfind('/');
            todo.push_back(slash == std::string::npos ? path : path.substr(slash + 1));
            path.erase(slash == std::string::npos ? 0 : slash);
        }
        return todo.size() > parts_most ? ELOOP : 0;
    }

    static constexpr std::size_t parts_most = 4096;
    const Descriptor& top_;
    std::string top_path_;
    std::vector<Descriptor> above_;
};

}  // namespace

Status add_files(const Descriptor& directory, const std::string& prefix, std::vector<StoreEntry>& entries) {
    return walk(
        directory, prefix,
        [&](std::string path, std::int64_t bytes, bool link) {
            if (!link) entries.push_back({std::move(path), bytes});
        },
        0);
}

Result<std::vector<TreeEntry>> entries_below(const Descriptor& directory) {
    std::vector<TreeEntry> entries;
    const auto take = [&](std::string path, std::int64_t bytes, bool link) {
        entries.push_back({std::move(path), bytes, link});
    };
    if (Status walked = walk(directory, "", take, 0); !walked) return walked.error();
    return entries;
}

Result<Descriptor> open_within(const Descriptor& top, const std::string& top_path, const std::string& path, int flags) {
    Descriptor opened;
    const int error = Within(top, top_path).open(path, flags, opened);
    if (error == EXDEV)
        return Error{ErrorCode::unauthorised, path + " is a link that leads out of its directory",
                     "put a copy of the file in the link's place"};
    if (error != 0) return Error{disk::failure("", path, error).code, std::strerror(error), ""};
    return opened;
}

namespace {

// Gives the owner's rights back to a directory without them, so that its names can be removed. If the caller may not
// change the mode, it cannot remove the names either, and reports that.
void widen(const Descriptor& directory) {
    struct stat seen{};
    if (::fstat(directory.number(), &seen) != 0 || (seen.st_mode & S_IRWXU) == S_IRWXU) return;
    const std::string here = "/proc/self/fd/" + std::to_string(directory.number());
    ::chmod(here.c_str(), (seen.st_mode & 07777) | S_IRWXU);
}

// A position in a tree. Only one descriptor is open at any depth, because a user can nest directories without bound.
// The way up is compared with the way down: ".." of a directory that was moved meanwhile leads elsewhere.
class Position {
  public:
    explicit Position(Descriptor top) : at_(std::move(top)) {}
    const Descriptor& at() const { return at_; }

    // Go down into a directory, or up to the parent. They return an errno. ESTALE: the directory was moved.
    int down(const std::string& name) {
        Descriptor below(::openat(at_.number(), name.c_str(), opened_directory));
        Identity here;
        if (!below.open() || !identify(at_, here)) return errno;
        above_.push_back(here);
        at_ = std::move(below);
        return 0;
    }
    int up() {
        Descriptor parent(::openat(at_.number(), "..", opened_directory));
        Identity there;
        if (!parent.open() || !identify(parent, there)) return errno;
        if (there != above_.back()) return ESTALE;
        above_.pop_back();
        at_ = std::move(parent);
        return 0;
    }

  private:
    using Identity = std::pair<dev_t, ino_t>;
    static bool identify(const Descriptor& directory, Identity& identity) {
        struct stat seen{};
        if (::fstat(directory.number(), &seen) != 0) return false;
        identity = {seen.st_dev, seen.st_ino};
        return true;
    }
    Descriptor at_;
    std::vector<Identity> above_;
};

Status empty_directory(const Descriptor& parent, const std::string& name, Rights rights);

// Removes everything below a directory. Continues after names that cannot be removed, and returns the first error.
class Emptying {
  public:
    Emptying(Descriptor top, Rights rights) : position_(std::move(top)), rights_(rights) {}

    Status run() {
        levels_.emplace_back();
        list();
        while (!levels_.empty()) {
            Level& level = levels_.back();
            if (!level.names.empty())
                take();
            else if (level.more && level.removed)
                list();
            else if (!leave())
                break;
        }
        return first_;
    }

  private:
    struct Level {
        // Names that are still to be removed; the last one is next. While the position is below a directory, that
        // directory's name is the last.
        std::vector<std::string> names{};
        bool more = false, removed = false;
    };
    // the most names that are read at once, so that a user who fills a directory does not fill this process's memory
    static constexpr std::size_t names_most = 1'000;

    void list() {
        auto names = names_in(position_.at(), names_most);
        if (!names) note(names.error());
        Level& level = levels_.back();
        level.removed = false;
        level.more = names && names->size() == names_most;
        if (names) level.names = std::move(*names);
    }

    void take() {
        const int directory = position_.at().number();
        const std::string& name = levels_.back().names.back();
        if (::unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) return done(true);
        const int why = errno;
        struct stat seen{};
        if (::fstatat(directory, name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(seen.st_mode))
            return refused(why);
        if (rights_ == Rights::owners_first && seen.st_uid != 0) {
            note(empty_directory(position_.at(), name, rights_));
            return remove_emptied();
        }
        widen(Descriptor(::openat(directory, name.c_str(), O_PATH | opened_directory)));
        if (const int error = position_.down(name); error != 0) return refused(error);
        levels_.emplace_back();
        list();
    }

    // Goes up by one directory. Returns false at the top, or if the parent is no longer at its place.
    bool leave() {
        levels_.pop_back();
        if (levels_.empty()) return false;
        if (const int error = position_.up(); error != 0) {
            note(disk::failure("removing", shown(position_.at(), ".."), error));
            return false;
        }
        remove_emptied();
        return true;
    }

    void remove_emptied() {
        const char* name = levels_.back().names.back().c_str();
        if (::unlinkat(position_.at().number(), name, AT_REMOVEDIR) == 0 || errno == ENOENT) return done(true);
        refused(errno);
    }
    void done(bool removed) {
        levels_.back().removed = levels_.back().removed || removed;
        levels_.back().names.pop_back();
    }
    void refused(int error) {
        if (first_) note(disk::failure("removing", shown(position_.at(), levels_.back().names.back()), error));
        done(false);
    }
    void note(const Status& status) {
        if (first_) first_ = status;
    }

    Position position_;
    Rights rights_;
    std::vector<Level> levels_;
    Status first_ = Done{};
};

Status empty_opened(const Descriptor& place, Rights rights) {
    widen(place);
    Descriptor directory(::openat(place.number(), ".", opened_directory));
    if (!directory.open()) return disk::failure("removing", shown(place, ""), errno);
    return Emptying(std::move(directory), rights).run();
}

// Removes with this thread's own rights what the owner's rights cannot remove, for example a directory that root has
// made there.
template <class Remove>
Status by_owner_first(const struct stat& directory, Rights rights, const Remove& remove) {
    if (rights == Rights::worn || directory.st_uid == 0) return remove(rights);
    {
        const WornRights owner(FileUser{.user = directory.st_uid,
                                        .group = directory.st_gid,
                                        .groups = {},
                                        .name = std::to_string(directory.st_uid)});
        if (owner.taken() && remove(Rights::worn)) return Done{};
    }
    return remove(Rights::worn);
}

Status empty_directory(const Descriptor& parent, const std::string& name, Rights rights) {
    const Descriptor place(::openat(parent.number(), name.c_str(), O_PATH | opened_directory));
    struct stat seen{};
    if (!place.open() || ::fstat(place.number(), &seen) != 0)
        return errno == ENOENT ? Status(Done{}) : disk::failure("removing", shown(parent, name), errno);
    return by_owner_first(seen, rights, [&](Rights with) { return empty_opened(place, with); });
}

Status remove_named(const Place& place, Rights rights) {
    const int directory = place.directory.number();
    const char* name = place.name.c_str();
    if (::unlinkat(directory, name, 0) == 0 || errno == ENOENT) return Done{};
    const int why = errno;
    struct stat seen{};
    if (::fstatat(directory, name, &seen, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(seen.st_mode))
        return disk::failure("removing", shown(place.directory, place.name), why);
    const Status emptied = empty_directory(place.directory, place.name, rights);
    if (::unlinkat(directory, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return Done{};
    return emptied ? disk::failure("removing", shown(place.directory, place.name), errno) : emptied;
}

}  // namespace

std::int64_t bytes_below(const std::string& directory) {
    Position position(Descriptor(::open(directory.c_str(), opened_directory)));
    // names of the directories that are still to be entered; index: the depth
    std::vector<std::vector<std::string>> levels;
    std::int64_t bytes = 0;
    const auto look = [&] {
        levels.emplace_back();
        const Status listed = each_name(position.at(), [&](const std::string& name) {
            struct stat seen{};
            if (::fstatat(position.at().number(), name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) != 0) return true;
            bytes += std::int64_t{seen.st_blocks} * 512;
            if (S_ISDIR(seen.st_mode)) levels.back().push_back(name);
            return true;
        });
        // errors are ignored: the directory is unreadable for this user, or was removed meanwhile
        static_cast<void>(listed);
    };
    look();
    while (!levels.empty()) {
        if (levels.back().empty()) {
            levels.pop_back();
            // The position cannot go up, because the directory was moved meanwhile.
            if (!levels.empty() && position.up() != 0) break;
            continue;
        }
        const std::string name = std::move(levels.back().back());
        levels.back().pop_back();
        if (position.down(name) == 0) look();
    }
    return bytes;
}

Status remove_all(const Place& place, Rights rights) {
    struct stat seen{};
    if (::geteuid() != 0) rights = Rights::worn;
    if (rights == Rights::owners_first && ::fstat(place.directory.number(), &seen) != 0)
        return disk::failure("removing", shown(place.directory, place.name), errno);
    return by_owner_first(seen, rights, [&](Rights with) { return remove_named(place, with); });
}

bool is_absent(const Descriptor& top, const std::string& path) {
    struct stat seen{};
    if (::fstatat(top.number(), path.c_str(), &seen, AT_SYMLINK_NOFOLLOW) == 0) return false;
    return errno == ENOENT || errno == ENOTDIR;
}

Status remove_all_beneath(const std::string& top, const std::string& path) {
    const auto opened = open_top(top);
    if (!opened) return opened.error().code == ErrorCode::not_found ? Status(Done{}) : opened.error();
    return remove_all_beneath(*opened, path);
}

Status remove_all_beneath(const Descriptor& top, const std::string& path) {
    const auto place = place_beneath(top, path);
    if (!place) return is_absent(top, path) ? Status(Done{}) : place.error();
    if (Status gone = remove_all(*place); !gone) return gone;
    return disk::sync_directory(place->directory);
}

}  // namespace rtrain::storage
