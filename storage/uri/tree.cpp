#include "storage/uri/tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

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

Status add_files(const Descriptor& directory, const std::string& prefix, std::vector<StoreEntry>& entries, int level) {
    if (Status fine = refuse_level(prefix, level); !fine) return fine;
    const auto names = names_in(directory);
    if (!names) return names.error();
    for (const std::string& name : *names) {
        struct stat seen{};
        if (disk::is_temporary(name)) continue;  // a run's directory that is being removed as well
        if (::fstatat(directory.number(), name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) != 0) continue;  // gone meanwhile
        if (S_ISREG(seen.st_mode)) entries.push_back({prefix + name, static_cast<std::int64_t>(seen.st_size)});
        if (!S_ISDIR(seen.st_mode)) continue;
        const Descriptor below(::openat(directory.number(), name.c_str(), opened_directory));
        if (!below.open() && exchanged(errno)) continue;
        if (!below.open()) return disk::failure("listing", shown(directory, name), errno);
        if (Status added = add_files(below, prefix + name + "/", entries, level + 1); !added) return added;
    }
    return Done{};
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
