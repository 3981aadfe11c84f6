#include "runtime/worker/removal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "runtime/worker/last_error.hpp"

namespace rtrain::worker {
namespace {

namespace fs = std::filesystem;
constexpr int lock_tries = 1000;  // one per millisecond; the lock is held for one rename

// Ranks of one machine check and rename one after the other. On a file system without locks only the check afterwards
// protects.
bool lock(int directory) {
    for (int tried = 0; tried < lock_tries; ++tried) {
        if (::flock(directory, LOCK_EX | LOCK_NB) == 0) return true;
        if (errno != EWOULDBLOCK && errno != EINTR) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

// Gives the owner write permission to directories that lack it.
std::error_code remove_tree(const std::string& path) {
    std::error_code error, ignored;
    fs::remove_all(path, error);
    if (!error) return error;
    for (fs::recursive_directory_iterator entry(path, ignored), end; !ignored && entry != end; entry.increment(ignored))
        if (fs::is_directory(entry->symlink_status(ignored)))
            fs::permissions(entry->path(), fs::perms::owner_all, fs::perm_options::add, ignored);
    fs::remove_all(path, error);
    return error;
}

}  // namespace

ReportedDirectory::ReportedDirectory(const std::string& path) : path_(path) {
    while (path_.size() > 1 && path_.back() == '/') path_.pop_back();
    std::error_code ignored;
    const fs::path whole = fs::absolute(path_, ignored);
    parent_path_ = whole.parent_path();
    name_ = whole.filename();
    parent_ = ::open(parent_path_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    own_ = ::openat(parent_, name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (own_ < 0 || ::fstat(own_, &facts_) != 0) error_ = errno;
}

ReportedDirectory::~ReportedDirectory() {
    if (own_ >= 0) ::close(own_);
    if (parent_ >= 0) ::close(parent_);
}

bool ReportedDirectory::named(const std::string& name) const {
    struct stat now{};
    return ::fstatat(parent_, name.c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_dev == facts_.st_dev &&
           now.st_ino == facts_.st_ino;
}

std::string ReportedDirectory::remove() {
    const auto not_renamed = [&](int error) {
        return "the reported directory " + path_ + " stays: it cannot be renamed, to be removed: " + errno_text(error);
    };
    if (error_ != 0) return not_renamed(error_);
    if (!lock(own_)) return not_renamed(EWOULDBLOCK);
    const std::string aside = ".rtrain-removed-" + std::to_string(facts_.st_ino);
    const bool ours = named(name_);
    const int error = ours && ::renameat(parent_, name_.c_str(), parent_, aside.c_str()) != 0 ? errno : 0;
    ::flock(own_, LOCK_UN);
    if (!ours || error == ENOENT) return {};  // another rank was faster
    if (error != 0) return not_renamed(error);
    if (!named(aside)) {  // Without locks: a new directory was made between the check and the rename.
        if (::renameat2(parent_, aside.c_str(), parent_, name_.c_str(), RENAME_NOREPLACE) == 0) return {};
        return "the directory " + path_ + " is now " + parent_path_ + "/" + aside + ": " + errno_text(errno);
    }
    if (const std::error_code left = remove_tree(parent_path_ + "/" + aside))
        return "what is left of the reported directory " + path_ + " stays in " + parent_path_ + "/" + aside + ": " +
               left.message() + "; remove it";
    return {};
}

}  // namespace rtrain::worker
