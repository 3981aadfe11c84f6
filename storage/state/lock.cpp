// The lock file holds "<pid> new" or "<pid> made"; see the header.
#include "storage/state/lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace rtrain::state {
namespace {

Error system_error(const std::string& doing, const std::string& path) {
    const std::string message = doing + " " + path + " failed: " + std::strerror(errno);
    if (errno == ENOSPC || errno == EDQUOT) return {ErrorCode::full, message, "make room on the disk of " + path};
    return {ErrorCode::io, message,
            "check that the directory exists and that you may write there, or choose another with --data"};
}

std::string content(int descriptor) {
    char text[64] = {};
    ssize_t size = pread(descriptor, text, sizeof text - 1, 0);
    return {text, size > 0 ? static_cast<std::size_t>(size) : 0};
}

}  // namespace

Result<DirectoryLock> DirectoryLock::take(const std::string& directory) {
    DirectoryLock lock;
    lock.path_ = directory + "/state.lock";
    std::error_code failed;
    if (std::filesystem::create_directories(directory, failed))
        std::filesystem::permissions(directory, std::filesystem::perms::owner_all, failed);
    lock.descriptor_ = open(lock.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock.descriptor_ < 0) return system_error("opening", lock.path_);
    std::string before = content(lock.descriptor_);
    if (flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return system_error("locking", lock.path_);
        std::string owner = before.substr(0, before.find(' '));
        return Error{ErrorCode::conflict, directory + " is in use by another head, process " + owner,
                     "stop it with `rtrain head stop`, or choose another directory with --data"};
    }
    lock.database_was_made_ = content(lock.descriptor_).find("made") != std::string::npos;
    if (Status written = lock.write_mark(); !written) return written.error();
    return lock;
}

Status DirectoryLock::write_mark() {
    std::string text = std::to_string(getpid()) + (database_was_made_ ? " made\n" : " new\n");
    if (pwrite(descriptor_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
        ftruncate(descriptor_, static_cast<off_t>(text.size())) != 0 || fsync(descriptor_) != 0)
        return system_error("writing", path_);
    return Done{};
}

Status DirectoryLock::database_is_made() {
    if (std::exchange(database_was_made_, true)) return Done{};
    return write_mark();
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      database_was_made_(other.database_was_made_) {}

DirectoryLock::~DirectoryLock() {
    if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace rtrain::state
