// See scratch.hpp.
#include "daemon/head/backup/scratch.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/hex.hpp"
#include "daemon/head/backup/sealed_file.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::head {
namespace {

constexpr std::size_t random_bytes_of_name = 8;
constexpr std::string_view copy_begin = "backup-";
constexpr std::string_view file_marks[] = {".partial-", ".key-"};

bool ends_in_random(std::string_view name, std::string_view mark) {
    const std::size_t at = name.rfind(mark);
    return at != name.npos && name.size() - at - mark.size() == 2 * random_bytes_of_name &&
           storage::is_hex(name.substr(at + mark.size()));
}

// Locks a file or directory that was just made. Returns false if another backup removed it before it was locked.
bool locked_and_there(const storage::Descriptor& scratch) {
    struct stat facts{};
    return ::flock(scratch.number(), LOCK_EX | LOCK_NB) == 0 && ::fstat(scratch.number(), &facts) == 0 &&
           facts.st_nlink > 0;
}

std::vector<std::string> names_in(const storage::Descriptor& directory) {
    std::vector<std::string> names;
    const int again = ::openat(directory.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(again < 0 ? nullptr : ::fdopendir(again), &::closedir);
    if (listing == nullptr) return names;
    while (const dirent* entry = ::readdir(listing.get())) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") names.push_back(name);
    }
    return names;
}

// Removes the copy. Follows no link, since root removes in directories of accounts with fewer rights.
void remove_copy(const storage::Descriptor& parent, const std::string& name, const storage::Descriptor& opened) {
    for (const std::string& file : names_in(opened)) ::unlinkat(opened.number(), file.c_str(), 0);
    ::unlinkat(parent.number(), name.c_str(), AT_REMOVEDIR);
}

bool is_dead(const storage::Descriptor& opened) {
    return opened.open() && ::flock(opened.number(), LOCK_EX | LOCK_NB) == 0;
}

void remove_dead_copy(const storage::Descriptor& parent, const std::string& name) {
    const storage::Descriptor opened(
        ::openat(parent.number(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (is_dead(opened)) remove_copy(parent, name, opened);
}

void remove_dead_file(const storage::Descriptor& parent, const std::string& name, const std::string& path) {
    const storage::Descriptor opened(
        ::openat(parent.number(), name.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    struct stat facts{};
    if (!opened.open() || ::fstat(opened.number(), &facts) != 0 || !S_ISREG(facts.st_mode)) return;
    if (facts.st_size != 0 && !is_sealed_backup(path)) return;
    if (is_dead(opened)) ::unlinkat(parent.number(), name.c_str(), 0);
}

}  // namespace

Error backup_file_error(const std::string& doing, const std::string& path) {
    const bool full = errno == ENOSPC || errno == EDQUOT;
    return {full ? ErrorCode::full : ErrorCode::io, doing + " " + path + ": " + std::strerror(errno),
            full ? "make room on the disk of " + path : "check the path and its permissions"};
}

Result<Scratch> Scratch::make(const std::string& begin) {
    while (true) {
        std::string path = begin + security::random_hex(random_bytes_of_name);
        storage::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!file.open()) return backup_file_error("creating", path);
        if (locked_and_there(file)) return Scratch(std::move(path), std::move(file));
    }
}

Scratch::Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, "")), file_(std::move(other.file_)) {}

Scratch::~Scratch() {
    if (!path_.empty()) ::unlink(path_.c_str());
}

Result<storage::Descriptor> Scratch::writer() const {
    storage::Descriptor same(::fcntl(file_.number(), F_DUPFD_CLOEXEC, 0));
    if (!same.open()) return backup_file_error("opening", path_);
    return same;
}

Status Scratch::move_to(const std::string& target) {
    if (::rename(path_.c_str(), target.c_str()) != 0) return backup_file_error("renaming to", target);
    path_.clear();
    const std::string directory = std::filesystem::path(target).parent_path();
    const storage::Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened.open() || ::fsync(opened.number()) != 0) return backup_file_error("syncing", directory);
    return Done{};
}

Result<ScratchDirectory> ScratchDirectory::make(const std::string& directory) {
    while (true) {
        std::string path = directory + "/" + std::string(copy_begin) + security::random_hex(random_bytes_of_name);
        if (::mkdir(path.c_str(), 0700) != 0) return backup_file_error("making", path);
        storage::Descriptor lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!lock.open() && errno != ENOENT) return backup_file_error("opening", path);
        if (lock.open() && locked_and_there(lock)) return ScratchDirectory(std::move(path), std::move(lock));
    }
}

ScratchDirectory::ScratchDirectory(ScratchDirectory&& other) noexcept
    : path_(std::exchange(other.path_, "")), lock_(std::move(other.lock_)) {}

ScratchDirectory::~ScratchDirectory() {
    if (path_.empty()) return;
    const std::filesystem::path path(path_);
    const storage::Descriptor parent(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (parent.open()) remove_copy(parent, path.filename(), lock_);
}

void remove_dead_scratch(const std::string& directory) {
    const storage::Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened.open()) return;
    for (const std::string& name : names_in(opened)) {
        if (name.starts_with(copy_begin) && ends_in_random(name, copy_begin)) remove_dead_copy(opened, name);
        for (const std::string_view mark : file_marks)
            if (ends_in_random(name, mark)) remove_dead_file(opened, name, directory + "/" + name);
    }
}

}  // namespace rtrain::head
