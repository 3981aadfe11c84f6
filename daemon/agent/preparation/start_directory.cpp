// Fills a start directory while only root can reach it, from descriptors. Follows no link.
#include "daemon/agent/preparation/start_directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <vector>

#include "base/descriptor.hpp"
#include "base/write_all.hpp"
#include "daemon/agent/workers/user_rights.hpp"

namespace rtrain::agent {
namespace {

namespace fs = std::filesystem;
using storage::Descriptor;
constexpr std::size_t copied_bytes = std::size_t{64} << 10;
constexpr long second_ns = 1'000'000'000;
constexpr int deepest = 200;  // bound on nested directories, since each holds three descriptors open
constexpr int plainly = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

Error failure(const std::string& doing, const fs::path& path, int error) {
    const bool full = error == ENOSPC || error == EDQUOT;
    return {full ? ErrorCode::full : ErrorCode::io, doing + " " + path.string() + ": " + std::strerror(error),
            full ? "make room on this file system" : ""};
}

// Copies at most `bytes`, since a process may still write to the source. Returns errno; 0 after success.
int copy_through_memory(int from, int to, off_t bytes) {
    std::vector<char> piece(copied_bytes);
    while (bytes > 0) {
        const ssize_t got = ::read(from, piece.data(), std::min(piece.size(), static_cast<std::size_t>(bytes)));
        if (got == 0) return 0;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        bytes -= got;
        if (const int error = storage::write_all(to, {piece.data(), static_cast<std::size_t>(got)}); error != 0)
            return error;
    }
    return 0;
}

// Shares blocks if possible, otherwise copies in the kernel. The rest, and a copy that was interrupted, goes through
// memory.
int copy_bytes(int from, int to, off_t bytes) {
    if (::ioctl(to, FICLONE, from) == 0) return 0;
    while (bytes > 0) {
        const ssize_t copied = ::copy_file_range(from, nullptr, to, nullptr, static_cast<std::size_t>(bytes), 0);
        if (copied <= 0) break;
        bytes -= copied;
    }
    return copy_through_memory(from, to, bytes);
}

// Reads the names. Returns errno; 0 after success.
int names_in(const Descriptor& directory, std::vector<std::string>& names) {
    const int own = ::fcntl(directory.number(), F_DUPFD_CLOEXEC, 0);
    DIR* const stream = own < 0 ? nullptr : ::fdopendir(own);
    if (stream == nullptr) {
        const int error = errno;
        if (own >= 0) ::close(own);
        return error;
    }
    ::rewinddir(stream);
    errno = 0;
    while (const dirent* entry = ::readdir(stream))
        if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
            names.emplace_back(entry->d_name);
    const int error = errno;
    ::closedir(stream);
    return error;
}

std::string link_target(const Descriptor& directory, const std::string& name) {
    char target[PATH_MAX];
    const ssize_t got = ::readlinkat(directory.number(), name.c_str(), target, sizeof target);
    return got > 0 ? std::string(target, static_cast<std::size_t>(got)) : std::string{};
}

Status give(int file, const WorkerUser& user, const fs::path& path) {
    if (user.uid < 0 || ::fchown(file, static_cast<uid_t>(user.uid), static_cast<gid_t>(user.gid)) == 0) return Done{};
    return failure("giving to user " + user.name, path, errno);
}

struct Source {           // a directory to copy
    Descriptor from;      // the directory itself
    Descriptor archived;  // the same directory in the unpacked code; files missing there were made by `setup:`
    fs::path path;        // the path of `from`
    std::string inside;   // its path in the start directory: "" or "a/b/"
};

class Copying {
  public:
    explicit Copying(const AttemptContext& context)
        // The tree of a setup belongs to the user.
        : user_(context.user), rights_(context.setup ? context.user : WorkerUser{}) {}

    Result<Descriptor> open(int directory, const std::string& name, int flags, const fs::path& path) const {
        const UserRights::Worn worn(rights_);
        if (!worn.taken()) return worn.taken().error();
        Descriptor opened(::openat(directory, name.c_str(), plainly | flags));
        if (!opened.open()) return failure("reading", path, errno);
        return opened;
    }

    Status entries(const Source& source, const Descriptor& to, int depth) {
        std::vector<std::string> names;
        if (const int error = names_in(source.from, names)) return failure("reading", source.path, error);
        for (const std::string& name : names)
            if (Status done = entry(source, name, to, depth); !done) return done;
        return Done{};
    }

    Status own(int file, const fs::path& path) const { return give(file, user_, path); }
    const std::string& list() const { return list_; }

  private:
    Status entry(const Source& source, const std::string& name, const Descriptor& to, int depth) {
        struct stat seen{}, unseen{};
        if (::fstatat(source.from.number(), name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) != 0)
            return failure("reading", source.path / name, errno);
        const bool packed = source.archived.open() &&
                            ::fstatat(source.archived.number(), name.c_str(), &unseen, AT_SYMLINK_NOFOLLOW) == 0;
        if (S_ISDIR(seen.st_mode)) {
            auto below = open(source.from.number(), name, O_DIRECTORY, source.path / name);
            std::vector<std::string> names;
            if (!below && packed) return below.error();
            if (below && (packed || (names_in(*below, names) == 0 && names.empty())))
                return directory(source, std::move(*below), name, to, depth);
        }
        if (S_ISREG(seen.st_mode) && packed) return file(source, name, to);
        const std::string target =
            packed && S_ISLNK(seen.st_mode) ? link_target(source.from, name) : (source.path / name).string();
        if (::symlinkat(target.c_str(), to.number(), name.c_str()) != 0)
            return failure("making the link", source.inside + name, errno);
        list_ += "l " + source.inside + name + '\0' + target + '\0';
        if (user_.uid < 0 || ::fchownat(to.number(), name.c_str(), static_cast<uid_t>(user_.uid),
                                        static_cast<gid_t>(user_.gid), AT_SYMLINK_NOFOLLOW) == 0)
            return Done{};
        return failure("giving to user " + user_.name, source.inside + name, errno);
    }

    Status directory(const Source& above, Descriptor from, const std::string& name, const Descriptor& to, int depth) {
        const std::string inside = above.inside + name;
        if (depth >= deepest)
            return Error{ErrorCode::invalid,
                         inside + " lies more than " + std::to_string(deepest) + " directories deep", ""};
        if (::mkdirat(to.number(), name.c_str(), 0755) != 0) return failure("making", inside, errno);
        const Descriptor copy(::openat(to.number(), name.c_str(), plainly | O_DIRECTORY));
        if (!copy.open()) return failure("making", inside, errno);
        Descriptor archived(
            above.archived.open() ? ::openat(above.archived.number(), name.c_str(), plainly | O_DIRECTORY) : -1);
        const Source source{std::move(from), std::move(archived), above.path / name, inside + "/"};
        list_ += "d " + inside + '\0';
        if (Status copied = entries(source, copy, depth + 1); !copied) return copied;
        return own(copy.number(), inside);
    }

    Status file(const Source& source, const std::string& name, const Descriptor& to) {
        const std::string inside = source.inside + name;
        auto from = open(source.from.number(), name, 0, source.path / name);
        if (!from) return from.error();
        struct stat facts{};
        if (::fstat(from->number(), &facts) != 0 || !S_ISREG(facts.st_mode))
            return Error{ErrorCode::io, "reading " + (source.path / name).string() + ": it is not a file any more", ""};
        const mode_t mode = (facts.st_mode & 0777) | S_IRUSR | S_IWUSR;
        const Descriptor target(
            ::openat(to.number(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
        if (!target.open()) return failure("making", inside, errno);
        if (const int error = copy_bytes(from->number(), target.number(), facts.st_size))
            return failure("copying " + (source.path / name).string() + " to", inside, error);
        const timespec times[] = {facts.st_atim, facts.st_mtim};
        if (::futimens(target.number(), times) != 0) return failure("keeping the times of", inside, errno);
        list_ += "f " + std::to_string(facts.st_size) + " " +
                 std::to_string(facts.st_mtim.tv_sec * second_ns + facts.st_mtim.tv_nsec) + " " + inside + '\0';
        return own(target.number(), inside);
    }

    const WorkerUser& user_;
    UserRights rights_;
    std::string list_;
};

// Writes a file that only the user may read.
Status lend(const std::string& path, const WorkerUser& user, const std::string& bytes) {
    if (Status written = write_whole(path, bytes, 0400, Durable::no); !written) return written;
    if (user.uid < 0 || ::lchown(path.c_str(), static_cast<uid_t>(user.uid), static_cast<gid_t>(user.gid)) == 0)
        return Done{};
    return failure("giving to user " + user.name, path, errno);
}

// Copies the pickled loop for the user. The original is in a directory that only the agent may read.
Status lend_driver(const AttemptContext& context, const NodeFacts& facts) {
    const std::string place = facts.files.driver(key_of(context.prepare.attempt)), aside = place + ".new";
    std::error_code unseen;
    if (context.driver_file.empty() || fs::exists(place, unseen)) return Done{};
    ::unlink(aside.c_str());
    const Descriptor from(::open(context.driver_file.c_str(), plainly));
    const Descriptor to(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400));
    struct stat seen{};
    if (!from.open() || ::fstat(from.number(), &seen) != 0) return failure("reading", context.driver_file, errno);
    if (!to.open()) return failure("making", aside, errno);
    if (const int error = copy_bytes(from.number(), to.number(), seen.st_size))
        return failure("copying " + context.driver_file + " to", aside, error);
    if (Status given = give(to.number(), context.user, aside); !given) return given;
    return ::rename(aside.c_str(), place.c_str()) == 0 ? Status(Done{}) : failure("making", place, errno);
}

// Fills the directory `aside`, which gets its owner last.
Status fill(const AttemptContext& context, const NodeFacts& facts, const std::string& aside, const std::string& list) {
    if (::mkdir(aside.c_str(), 0700) != 0) return failure("making", aside, errno);
    const Descriptor to(::open(aside.c_str(), plainly | O_DIRECTORY));
    if (!to.open()) return failure("making", aside, errno);
    Copying copying(context);
    if (!context.working_dir.empty()) {
        auto from = copying.open(AT_FDCWD, context.working_dir, O_DIRECTORY, context.working_dir);
        if (!from) return from.error();
        const std::string& sha256 = context.prepare.code_sha256;
        Descriptor archived(sha256.empty() ? -1 : ::open(facts.files.code(sha256).c_str(), plainly | O_DIRECTORY));
        const Source top{std::move(*from), std::move(archived), context.working_dir, ""};
        if (Status copied = copying.entries(top, to, 0); !copied) return copied;
    }
    if (Status kept = lend(list, context.user, copying.list()); !kept) return kept;
    return copying.own(to.number(), aside);
}

}  // namespace

Status seal_code(const std::string& directory) {
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME, &time);
    std::error_code failed;
    for (auto at = fs::recursive_directory_iterator(directory, failed);
         !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
        struct stat facts{};
        if (::lstat(at->path().c_str(), &facts) != 0) return failure("reading", at->path(), errno);
        if (!S_ISREG(facts.st_mode)) continue;
        time = {.tv_sec = time.tv_sec + (time.tv_nsec + 1) / second_ns, .tv_nsec = (time.tv_nsec + 1) % second_ns};
        const timespec times[] = {time, time};
        if (::utimensat(AT_FDCWD, at->path().c_str(), times, AT_SYMLINK_NOFOLLOW) != 0 ||
            ::chmod(at->path().c_str(), facts.st_mode & 0555) != 0)
            return failure("sealing", at->path(), errno);
    }
    return failed ? Status(failure("reading", directory, failed.value())) : Status(Done{});
}

Result<std::string> start_directory(const AttemptContext& context, const NodeFacts& facts, std::uint32_t rank) {
    const std::string folder = facts.files.worker(key_of(context.prepare.attempt), rank), place = folder + "/cwd";
    std::error_code unseen;
    if (fs::is_directory(place, unseen)) return place;
    if (Status status = make_directory(folder, 0711); !status) return status.error();
    if (Status lent = lend_driver(context, facts); !lent) return lent.error();
    const std::string aside = place + ".new";
    remove_tree(aside);  // left by an agent that died meanwhile
    if (Status filled = fill(context, facts, aside, folder + code_list_name); !filled) {
        remove_tree(aside);
        return filled.error();
    }
    if (::rename(aside.c_str(), place.c_str()) != 0) return failure("making", place, errno);
    return place;
}

void remove_start_directories(const AttemptContext& context, const NodeFacts& facts) {
    const AttemptKey key = key_of(context.prepare.attempt);
    for (const protocol::PeerNode& peer : context.prepare.nodes)
        for (const std::uint32_t rank : peer.ranks)
            if (peer.node == facts.node)
                for (const char* name : {"/cwd", "/cwd.new", code_list_name})
                    remove_tree(facts.files.worker(key, rank) + name);
    remove_tree(facts.files.driver(key));
}

Status start_directories(const AttemptContext& context, const NodeFacts& facts) {
    for (const protocol::PeerNode& peer : context.prepare.nodes)
        for (const std::uint32_t rank : peer.ranks)
            if (peer.node == facts.node)
                if (auto place = start_directory(context, facts, rank); !place) return place.error();
    return Done{};
}

}  // namespace rtrain::agent
