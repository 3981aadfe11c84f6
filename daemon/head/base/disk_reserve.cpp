// See disk_reserve.hpp.
#include "daemon/head/base/disk_reserve.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/descriptor.hpp"
#include "daemon/head/base/limits.hpp"

namespace rtrain::head {
namespace {

constexpr std::uint64_t pieces = 8;               // number of parts in which the reserve file is given up
constexpr std::uint64_t start_bytes = 256 << 10;  // approximate number of bytes that the start of a head writes

std::uint64_t size_of(const std::string& path) {
    struct stat facts{};
    return ::stat(path.c_str(), &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
}

// Returns true if space is scarce: less than `least` bytes are free. Once it was scarce, it stays so until a quarter
// more than `least` is free.
bool scarce(bool before, std::uint64_t has, std::uint64_t least) { return has < (before ? least + least / 4 : least); }

Error no_room(const std::string& directory, const char* what, std::uint64_t least) {
    return {ErrorCode::full,
            "the disk of the head's data directory (" + directory + ") is nearly full: the last " +
                std::to_string(least >> 20) + " MiB are kept for changes such as stop and runs rm, and no " + what +
                " are added",
            "make room on the disk of " + directory + ", for example: rtrain runs rm of old runs"};
}

}  // namespace

std::optional<DiskSize> disk_size(const std::string& directory) {
    struct statvfs disk{};
    if (::statvfs(directory.c_str(), &disk) != 0) return std::nullopt;
    return DiskSize{.whole = static_cast<std::uint64_t>(disk.f_blocks) * disk.f_frsize,
                    .free = static_cast<std::uint64_t>(disk.f_bavail) * disk.f_frsize};
}

DiskReserve::Sizes DiskReserve::sizes_on(std::uint64_t whole_disk) {
    return {.for_users = std::min<std::uint64_t>(limits::disk_reserve, whole_disk / limits::disk_reserve_part),
            .file = std::min<std::uint64_t>(limits::reserve_file, whole_disk / limits::reserve_file_part)};
}

DiskReserve::DiskReserve(std::string directory, Measure measure)
    : directory_(std::move(directory)), measure_(std::move(measure)) {}

std::uint64_t DiskReserve::file_bytes() const { return size_of(path()); }

// Shortens the reserve file by one piece, so that other programs can take only this piece.
bool DiskReserve::give_up() {
    std::lock_guard held(guard_);
    const std::uint64_t have = size_of(path());
    const auto disk = measure_(directory_);
    if (have == 0) return false;
    const std::uint64_t piece = std::max<std::uint64_t>(sizes_on(disk ? disk->whole : 0).file / pieces, 64 << 10);
    if (have <= piece) return ::unlink(path().c_str()) == 0;
    return ::truncate(path().c_str(), static_cast<off_t>(have - piece)) == 0;
}

void DiskReserve::make_room_for_start() {
    for (auto disk = measure_(directory_); disk && disk->free < start_bytes && give_up();) disk = measure_(directory_);
}

void DiskReserve::restore(std::uint64_t free) {
    const auto disk = measure_(directory_);
    const Sizes sizes = sizes_on(disk ? disk->whole : 0);
    const std::uint64_t have = size_of(path());
    if (have >= sizes.file || free < sizes.for_users + sizes.file - have) return;
    const storage::Descriptor file(::open(path().c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file.open()) return;
    const bool whole = ::posix_fallocate(file.number(), 0, static_cast<off_t>(sizes.file)) == 0;
    // the file cannot be extended, because another program has used the space
    if (!whole && ::ftruncate(file.number(), static_cast<off_t>(have)) != 0)
        std::fprintf(stderr, "rtrain head: %s: %s\n", path().c_str(), std::strerror(errno));
}

DiskReserve::Room DiskReserve::look(std::uint64_t unused) {
    std::lock_guard held(guard_);
    if (const auto disk = measure_(directory_)) restore(disk->free);
    const auto disk = measure_(directory_);
    if (!disk) return {};
    const Sizes sizes = sizes_on(disk->whole);
    const std::uint64_t has = disk->free + std::min(size_of(path()), sizes.file);
    // free bytes that are left for others while the reserve file is whole
    const std::uint64_t beyond = has > sizes.file ? has - sizes.file : 0;
    files_scarce_ = scarce(files_scarce_, beyond, sizes.for_users);
    rows_scarce_ = scarce(rows_scarce_, beyond + unused, sizes.for_users);
    Room room;
    if (files_scarce_) room.files = no_room(directory_, "files of users", sizes.for_users);
    if (rows_scarce_) room.rows = no_room(directory_, "runs and reports", sizes.for_users);
    return room;
}

}  // namespace rtrain::head
