// Durable writes: a file beside the target, fsync, rename, fsync of the directory. A crash at any point leaves the old
// file or the new one.

#include "storage/uri/files/disk.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/write_all.hpp"

namespace rtrain::storage::disk {
namespace {

constexpr std::string_view temporary_prefix = ".rtrain-tmp-";
constexpr std::int64_t sync_piece_bytes = std::int64_t{64} << 20;

// Returns an error code for an errno, including errors that the server behind a mount reports (NFS and similar).
ErrorCode code_of(int error_number) {
    switch (error_number) {
        case ENOENT:
            return ErrorCode::not_found;
        case EACCES:
        case EPERM:
        case EROFS:
            return ErrorCode::unauthorised;
        case ESTALE:
        case ETIMEDOUT:
        case EHOSTDOWN:
        case EHOSTUNREACH:
        case ENOTCONN:
            return ErrorCode::unreachable;
        default:
            return ErrorCode::io;
    }
}

}  // namespace

std::string random_name() {
    std::uint64_t random[2] = {};
    if (::getrandom(random, sizeof random, 0) != sizeof random) return {};
    char text[40];
    std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(random[0]),
                  static_cast<unsigned long long>(random[1]));
    return text;
}

Error failure(const std::string& doing, const std::string& path, int error_number) {
    const std::string what = doing + " " + path + ": ";
    if (error_number != ENOSPC && error_number != EDQUOT)
        return {code_of(error_number), what + std::strerror(error_number), ""};
    std::string free_text;
    struct statvfs room{};
    if (::statvfs(directory_of(path).c_str(), &room) == 0) {
        const auto block = static_cast<std::uint64_t>(room.f_frsize);
        free_text = " (" + std::to_string(room.f_bavail * block) + " of " + std::to_string(room.f_blocks * block) +
                    " bytes free there)";
    }
    const char* why = error_number == EDQUOT ? "the disk quota is used up" : "no space left on the device";
    return {ErrorCode::full, what + why + free_text, "free space on the file system of " + directory_of(path)};
}

bool is_temporary(std::string_view file_name) { return file_name.starts_with(temporary_prefix); }

std::string directory_of(const std::string& path) {
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

Status write_all(int descriptor, std::string_view bytes, const std::string& path) {
    if (const int error = storage::write_all(descriptor, bytes); error != 0) return failure("writing", path, error);
    return Done{};
}

Status sync(int descriptor, const std::string& path) {
    if (::fsync(descriptor) != 0) return failure("bringing to the disk", path, errno);
    return Done{};
}

// Without sync_file_range the fsync below writes everything at once. It also reports faults that a piece did not
// report.
Status sync(int descriptor, const std::string& path, std::int64_t bytes, const Progress& progress) {
    constexpr unsigned int through = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    for (std::int64_t done = 0; progress && bytes > sync_piece_bytes && done < bytes; done += sync_piece_bytes) {
        const bool synced = ::sync_file_range(descriptor, done, sync_piece_bytes, through) == 0;
        if (!synced && (errno == EIO || errno == ENOSPC || errno == EDQUOT))
            // The kernel reports this error once only, so the fsync below would not report it again.
            return failure("bringing to the disk", path, errno);
        if (!synced) break;
        progress(std::min(done + sync_piece_bytes, bytes), bytes);
    }
    return sync(descriptor, path);
}

Status sync_directory(const std::string& directory) {
    const Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened.open()) return failure("opening", directory, errno);
    return sync_directory(opened);
}

Status sync_directory(const Descriptor& directory) {
    // Some network file systems cannot sync a directory; on them new names are durable at once.
    if (::fsync(directory.number()) != 0 && errno != EINVAL && errno != EROFS)
        return failure("bringing to the disk", shown(directory, ""), errno);
    return Done{};
}

Result<std::int64_t> size_of(const Descriptor& opened, const std::string& path) {
    struct stat seen{};
    if (::fstat(opened.number(), &seen) != 0) return failure("reading", path, errno);
    if (!S_ISREG(seen.st_mode)) return Error{ErrorCode::io, "reading " + path + ": not a regular file", ""};
    return static_cast<std::int64_t>(seen.st_size);
}

Status make_directories(const std::string& directory) {
    struct stat seen{};
    if (::stat(directory.c_str(), &seen) == 0) {
        if (S_ISDIR(seen.st_mode)) return Done{};
        return Error{ErrorCode::io, "making " + directory + ": a file of that name is in the way", ""};
    }
    if (errno != ENOENT) return failure("making", directory, errno);
    const std::string parent = directory_of(directory);
    if (auto status = make_directories(parent); !status) return status;
    if (::mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) return failure("making", directory, errno);
    return sync_directory(parent);
}

Result<Aside> Aside::begin(const std::string& target) {
    auto directory = open_top(directory_of(target));
    if (!directory) return directory.error();
    return begin({std::move(*directory), target.substr(target.rfind('/') + 1)}, target);
}

Result<Aside> Aside::begin(Place place, const std::string& target) {
    const std::string random = random_name(), name = std::string(temporary_prefix) + random;
    if (random.empty()) return failure("writing", target, errno);
    constexpr int made_new = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    Descriptor file(::openat(place.directory.number(), name.c_str(), made_new, 0666));
    if (!file.open()) return failure("writing", target, errno);
    return Aside(std::move(file), std::move(place), name, target);
}

Aside::~Aside() {
    if (!name_.text.empty()) ::unlinkat(place_.directory.number(), name_.text.c_str(), 0);
}

Status Aside::replace() {
    if (auto synced = sync(file_.number(), target_); !synced) return synced;
    const int directory = place_.directory.number();
    if (::renameat(directory, name_.text.c_str(), directory, place_.name.c_str()) != 0)
        return failure("writing", target_, errno);
    name_.text.clear();
    return sync_directory(place_.directory);
}

Status Aside::replace_unsynced() {
    const int directory = place_.directory.number();
    if (::renameat(directory, name_.text.c_str(), directory, place_.name.c_str()) != 0)
        return failure("writing", target_, errno);
    name_.text.clear();
    return Done{};
}

Result<bool> Aside::take_place() {
    if (auto synced = sync(file_.number(), target_); !synced) return synced.error();
    const int directory = place_.directory.number();
    const char *aside = name_.text.c_str(), *name = place_.name.c_str();
    bool linked = ::linkat(directory, aside, directory, name, 0) == 0;
    int why = linked ? 0 : errno;
    struct stat seen{};
    // Over NFS the answer to a successful link() may be lost; the number of links shows it.
    if (!linked && ::fstat(file_.number(), &seen) == 0 && seen.st_nlink == 2) linked = true;
    // the file system has no hard links
    if (!linked && why != EEXIST && why != ENOENT && why != ENOSPC && why != EDQUOT) {
        linked = ::renameat2(directory, aside, directory, name, RENAME_NOREPLACE) == 0;
        if (!linked && errno == EEXIST) why = EEXIST;
    }
    if (!linked && why == EEXIST) return false;
    if (!linked) return failure("creating", target_, why);
    ::unlinkat(directory, aside, 0);
    name_.text.clear();
    if (auto synced = sync_directory(place_.directory); !synced) return synced.error();
    return true;
}

}  // namespace rtrain::storage::disk
