#include "storage/uri/tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "storage/uri/disk.hpp"

namespace rtrain::storage {
namespace {

constexpr int opened_directory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

Status refuse_level(const std::string& path, int level) {
    if (level < levels_most) return Done{};
    return Error{ErrorCode::invalid, path + ": directories are nested deeper than " + std::to_string(levels_most),
                 "remove the deepest ones"};
}

// Gone, or not a directory any more, since its name was read.
bool exchanged(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP; }

}  // namespace

Result<std::vector<std::string>> names_in(const Descriptor& directory) {
    const int own = ::openat(directory.number(), ".", opened_directory);
    DIR* const stream = own < 0 ? nullptr : ::fdopendir(own);
    if (stream == nullptr) {
        const int error = errno;
        if (own >= 0) ::close(own);
        return disk::failure("listing", shown(directory, ""), error);
    }
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(stream)) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") names.push_back(name);
        errno = 0;
    }
    const int error = errno;
    ::closedir(stream);
    if (error != 0) return disk::failure("listing", shown(directory, ""), error);
    std::sort(names.begin(), names.end());
    return names;
}

namespace {

// Tells `take` of regular files and links.
template <class Take>
Status walk(const Descriptor& directory, const std::string& prefix, const Take& take, int level) {
    if (Status fine = refuse_level(prefix, level); !fine) return fine;
    const auto names = names_in(directory);
    if (!names) return names.error();
    for (const std::string& name : *names) {
        struct stat seen{};
        if (disk::is_temporary(name)) continue;  // a run's directory that is being removed as well
        if (::fstatat(directory.number(), name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) != 0) continue;  // gone meanwhile
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

// The position of a walk. It keeps the directories above it, so ".." is answered without asking the file system.
class Within {
  public:
    Within(const Descriptor& top, std::string top_path) : top_(top), top_path_(std::move(top_path)) {}

    // An errno; 0: `found` is open. EXDEV: it leads out.
    int open(const std::string& path, int flags, Descriptor& found) {
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
            if (last) found = std::move(next);
            if (!last) above_.push_back(std::move(next));
        }
        if (error == 0 && !found.open()) return EISDIR;
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
        while (!path.empty()) {  // the last part lies deepest
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
    Descriptor found;
    const int error = Within(top, top_path).open(path, flags, found);
    if (error == EXDEV)
        return Error{ErrorCode::unauthorised, path + " is a link that leads out of its directory",
                     "put a copy of the file in the link's place"};
    if (error != 0) return Error{disk::failure("", path, error).code, std::strerror(error), ""};
    return found;
}

// A directory without its owner's rights holds names that the owner can remove once it has them again. Whoever may not
// change its mode cannot remove what is in it either, and says so then.
static void widen(int parent, const char* name, const struct stat& seen) {
    if ((seen.st_mode & S_IRWXU) == S_IRWXU) return;
    const Descriptor itself(::openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    const std::string here = "/proc/self/fd/" + std::to_string(itself.number());
    if (itself.open()) ::chmod(here.c_str(), (seen.st_mode & 07777) | S_IRWXU);
}

Status remove_all(const Place& place, int level) {
    const int directory = place.directory.number();
    const char* name = place.name.c_str();
    if (::unlinkat(directory, name, 0) == 0 || errno == ENOENT) return Done{};
    const int why = errno;
    struct stat seen{};
    if (::fstatat(directory, name, &seen, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(seen.st_mode))
        return disk::failure("removing", shown(place.directory, place.name), why);
    if (Status fine = refuse_level(shown(place.directory, place.name), level); !fine) return fine;
    widen(directory, name, seen);
    {
        Descriptor below(::openat(directory, name, opened_directory));
        if (!below.open()) return disk::failure("removing", shown(place.directory, place.name), errno);
        auto names = names_in(below);
        if (!names) return names.error();
        Place inside{std::move(below), ""};
        for (std::string& one : *names) {
            inside.name = std::move(one);
            if (Status gone = remove_all(inside, level + 1); !gone) return gone;
        }
    }
    if (::unlinkat(directory, name, AT_REMOVEDIR) == 0 || errno == ENOENT) return Done{};
    return disk::failure("removing", shown(place.directory, place.name), errno);
}

bool is_absent(const Descriptor& top, const std::string& path) {
    struct stat seen{};
    if (::fstatat(top.number(), path.c_str(), &seen, AT_SYMLINK_NOFOLLOW) == 0) return false;
    return errno == ENOENT || errno == ENOTDIR;
}

Status remove_all_beneath(const std::string& top, const std::string& path) {
    const auto opened = open_top(top);
    if (!opened) return opened.error().code == ErrorCode::not_found ? Status(Done{}) : opened.error();
    const auto place = place_beneath(*opened, path);
    if (!place) return is_absent(*opened, path) ? Status(Done{}) : place.error();
    if (Status gone = remove_all(*place); !gone) return gone;
    return disk::sync_directory(place->directory);
}

}  // namespace rtrain::storage
