// See beneath.hpp. glibc 2.36 has no wrapper for openat2, so it is called by number.
#include "storage/uri/files/beneath.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "storage/uri/files/disk.hpp"

namespace rtrain::storage {
namespace {

// tries after EAGAIN, which means that another process renamed a part of the path while the kernel resolved it
constexpr int exchanged_tries = 16;
// tries in which another process removes an empty directory before the next one is made in it
constexpr int removed_tries = 64;

Error failure(const Descriptor& top, const std::string& path, const std::string& doing, int error_number) {
    const std::string name = shown(top, path);
    if (error_number == ELOOP || error_number == EXDEV)
        return {ErrorCode::unauthorised,
                doing + " " + name + ": a part of this path is a link, and links are not followed here",
                "put the directory itself in the link's place"};
    return disk::failure(doing, name, error_number);
}

// Returns the parts of `path`; empty if it is not a path beneath a directory.
std::vector<std::string> parts_of(const std::string& path) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= path.size();) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        std::string part = path.substr(begin, end - begin);
        if (part.empty() || part == "." || part == ".." || part.find('\0') != std::string::npos) return {};
        parts.push_back(std::move(part));
        begin = end + 1;
    }
    return parts;
}

Error not_a_path(const std::string& path) {
    return {ErrorCode::invalid, "\"" + path + "\" is not a path beneath a directory",
            "use relative paths without empty, '.' or '..' parts"};
}

// Opens one directory of a path. If it fails, sets `error` to an errno. For a link, the kernel's ENOTDIR is replaced by
// ELOOP.
Descriptor step_into(int directory, const std::string& name, int& error) {
    Descriptor next(::openat(directory, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    error = next.open() ? 0 : errno;
    struct stat seen{};
    if (error == ENOTDIR && ::fstatat(directory, name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(seen.st_mode))
        error = ELOOP;
    return next;
}

Descriptor walk_each_part(const Descriptor& top, const std::vector<std::string>& parts, int flags, unsigned int mode,
                          int& error) {
    Descriptor at(::fcntl(top.number(), F_DUPFD_CLOEXEC, 0));
    error = at.open() ? 0 : errno;
    for (std::size_t i = 0; i + 1 < parts.size() && error == 0; ++i) at = step_into(at.number(), parts[i], error);
    if (error != 0) return Descriptor();
    Descriptor file(::openat(at.number(), parts.back().c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode));
    error = file.open() ? 0 : errno;
    struct stat seen{};
    if (error == ENOTDIR && ::fstatat(at.number(), parts.back().c_str(), &seen, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISLNK(seen.st_mode))
        error = ELOOP;
    return file;
}

Descriptor call_openat2(int directory, const std::string& path, open_how how, int& error) {
    for (int tries = 0; tries < exchanged_tries; ++tries) {
        Descriptor file(static_cast<int>(::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how)));
        error = file.open() ? 0 : errno;
        if (error != EAGAIN && error != EINTR) return file;
    }
    return Descriptor();
}

Descriptor open_by_kernel(const Descriptor& top, const std::string& path, int flags, unsigned int mode, int& error) {
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags | O_NOFOLLOW | O_CLOEXEC);
    // The kernel refuses a mode with flags that make no file.
    how.mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? mode : 0;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    return call_openat2(top.number(), path, how, error);
}

Descriptor open_top_by_kernel(const std::string& directory, int access, int& error) {
    open_how how{};
    how.flags = static_cast<std::uint64_t>(access | O_DIRECTORY | O_CLOEXEC);
    how.resolve = RESOLVE_NO_MAGICLINKS;
    return call_openat2(AT_FDCWD, directory, how, error);
}

// Opens a directory without openat2. It follows each link by the link's text; this does not work for the links of
// /proc. The resulting path has no link. If another process makes one meanwhile, opening fails.
Descriptor walk_to_top(const std::string& directory, int access, int& error) {
    std::error_code failed;
    const std::string path = std::filesystem::canonical(directory, failed).string();
    const Descriptor root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    error = failed ? failed.value() : root.open() ? 0 : errno;
    if (error != 0) return Descriptor();
    const int flags = access | O_DIRECTORY;
    if (path != "/") return walk_each_part(root, parts_of(path.substr(1)), flags, 0, error);
    Descriptor top(::open("/", flags | O_CLOEXEC));
    error = top.open() ? 0 : errno;
    return top;
}

// Tries once to make the directory `path`. Returns not_found if another process removed a directory on the way.
Result<Descriptor> try_to_make(const Descriptor& top, const std::string& path, unsigned int mode) {
    constexpr int directory = O_RDONLY | O_DIRECTORY;
    if (path.empty()) return open_beneath(top, path, directory);
    auto there = open_beneath(top, path, directory);
    if (there || there.error().code != ErrorCode::not_found) return there;
    const std::size_t slash = path.rfind('/');
    auto parent = try_to_make(top, slash == std::string::npos ? "" : path.substr(0, slash), mode);
    if (!parent) return parent;
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    if (::mkdirat(parent->number(), name.c_str(), mode) != 0 && errno != EEXIST)
        // ESTALE: another NFS client removed the directory
        return failure(*parent, name, "making", errno == ESTALE ? ENOENT : errno);
    // Some network file systems cannot sync a directory; on them new names are durable at once.
    if (::fsync(parent->number()) != 0 && errno != EINVAL && errno != EROFS)
        return failure(*parent, "", "bringing to the disk", errno);
    return open_beneath(*parent, name, directory);
}

}  // namespace

Error too_large(const std::string& path, std::int64_t most) {
    return {ErrorCode::damaged,
            "reading " + path + ": it has more than " + std::to_string(most >> 20) + " MiB, and is read whole",
            "rtrain writes no such file: see what did, and remove it or put the right one in its place"};
}

Result<std::string> read_opened(const Descriptor& file, const std::string& path, std::int64_t most) {
    std::string bytes;
    for (;;) {
        char piece[65536];
        const ssize_t got = ::read(file.number(), piece, sizeof piece);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return disk::failure("reading", path, errno);
        if (got == 0) return bytes;
        bytes.append(piece, static_cast<std::size_t>(got));
        if (static_cast<std::int64_t>(bytes.size()) > most) return too_large(path, most);
    }
}

std::string shown(const Descriptor& directory, const std::string& path) {
    char name[4096];
    const std::string link = "/proc/self/fd/" + std::to_string(directory.number());
    const ssize_t length = ::readlink(link.c_str(), name, sizeof name);
    const std::string top = length > 0 ? std::string(name, static_cast<std::size_t>(length)) : "(a directory)";
    return path.empty() ? top : top + "/" + path;
}

Result<Descriptor> open_top_by(Walk walk, const std::string& directory) {
    // If the directory cannot be opened for reading, search permission is enough, since names in it are known.
    for (const int access : {O_RDONLY, O_PATH}) {
        int error = ENOSYS;
        Descriptor top;
        if (walk == Walk::kernel) top = open_top_by_kernel(directory, access, error);
        if (error == ENOSYS || error == EPERM || error == EAGAIN) top = walk_to_top(directory, access, error);
        if (error == 0) return top;
        if (error == ELOOP)
            return Error{ErrorCode::unauthorised,
                         "opening " + directory + ": a part of this path is a link that goes round, or one of /proc's",
                         "name the directory itself"};
        if (error != EACCES || access == O_PATH) return disk::failure("opening", directory, error);
    }
    return disk::failure("opening", directory, EACCES);
}

Result<Descriptor> open_top(const std::string& directory) { return open_top_by(Walk::kernel, directory); }

Result<Descriptor> open_real_top(const std::string& directory) {
    const Descriptor root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root.open()) return disk::failure("opening", "/", errno);
    const std::string path = directory.substr(std::min(directory.find_first_not_of('/'), directory.size()));
    auto top = open_beneath(root, path, O_RDONLY | O_DIRECTORY);
    if (top || top.error().code != ErrorCode::unauthorised) return top;
    return open_beneath(root, path, O_PATH | O_DIRECTORY);  // search permission is enough, because the names are known
}

Result<std::string> real_directory(const std::string& directory) {
    std::string there = directory, missing;
    auto opened = open_top(there);
    while (!opened && opened.error().code == ErrorCode::not_found && there.size() > 1) {
        const std::size_t slash = there.rfind('/');
        missing = there.substr(slash) + missing;
        there = slash == 0 ? "/" : there.substr(0, slash);
        opened = open_top(there);
    }
    if (!opened) return opened.error();
    const std::string real = shown(*opened, "");
    const auto again = open_real_top(real);
    struct stat first{}, second{};
    const bool same = again && ::fstat(opened->number(), &first) == 0 && ::fstat(again->number(), &second) == 0 &&
                      first.st_dev == second.st_dev && first.st_ino == second.st_ino;
    if (!same)
        return Error{ErrorCode::unreachable, "where " + directory + " leads cannot be told: a part of it was exchanged",
                     "try it again"};
    return real == "/" && !missing.empty() ? missing : real + missing;
}

Result<Descriptor> open_beneath_by(Walk walk, const Descriptor& top, const std::string& path, int flags,
                                   unsigned int mode) {
    int error = 0;
    if (path.empty()) {
        Descriptor again(::openat(top.number(), ".", flags | O_CLOEXEC, mode));
        if (!again.open()) return failure(top, path, "opening", errno);
        return again;
    }
    const std::vector<std::string> parts = parts_of(path);
    if (parts.empty()) return not_a_path(path);
    Descriptor file;
    if (walk == Walk::kernel) file = open_by_kernel(top, path, flags, mode, error);
    // EPERM may come from a container's filter that forbids the call, or from the file itself. ENOTDIR may mean a link
    // or a file. Opening each part in turn distinguishes these cases.
    const bool again = error == ENOSYS || error == EPERM || error == EAGAIN || error == ENOTDIR;
    if (walk == Walk::each_part || again) file = walk_each_part(top, parts, flags, mode, error);
    struct stat seen{};  // O_PATH with O_NOFOLLOW opens a link itself.
    if (error == 0 && (flags & O_PATH) != 0 && ::fstat(file.number(), &seen) == 0 && S_ISLNK(seen.st_mode))
        error = ELOOP;
    if (error != 0) return failure(top, path, (flags & O_ACCMODE) == O_RDONLY ? "reading" : "writing", error);
    return file;
}

Result<Descriptor> open_beneath(const Descriptor& top, const std::string& path, int flags, unsigned int mode) {
    return open_beneath_by(Walk::kernel, top, path, flags, mode);
}

Result<Descriptor> open_in_root_by(Walk walk, const Descriptor& root, const std::string& path, int flags) {
    const std::vector<std::string> parts = parts_of(path);
    if (parts.empty() || (flags & (O_CREAT | O_NOFOLLOW)) != 0) return not_a_path(path);
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    int error = ENOSYS;
    Descriptor file;
    if (walk == Walk::kernel) file = call_openat2(root.number(), path, how, error);
    if (error == ENOSYS || error == EPERM || error == EAGAIN) file = walk_each_part(root, parts, flags, 0, error);
    if (error != 0) return failure(root, path, "opening", error);
    return file;
}

Result<Descriptor> open_in_root(const Descriptor& root, const std::string& path, int flags) {
    return open_in_root_by(Walk::kernel, root, path, flags);
}

Result<Descriptor> make_beneath(const Descriptor& top, const std::string& path, unsigned int mode) {
    auto directory = try_to_make(top, path, mode);
    for (int i = 1; i < removed_tries && !directory && directory.error().code == ErrorCode::not_found; ++i)
        directory = try_to_make(top, path, mode);
    return directory;
}

Result<Place> place_beneath(const Descriptor& top, const std::string& path) {
    if (path.empty() || parts_of(path).empty()) return not_a_path(path);
    const std::size_t slash = path.rfind('/');
    auto directory = open_beneath(top, slash == std::string::npos ? "" : path.substr(0, slash), O_RDONLY | O_DIRECTORY);
    if (!directory) return directory.error();
    return Place{std::move(*directory), slash == std::string::npos ? path : path.substr(slash + 1)};
}

}  // namespace rtrain::storage
