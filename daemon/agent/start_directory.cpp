// See start_directory.hpp.
#include "daemon/agent/start_directory.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <vector>

namespace rtrain::agent {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t piece_bytes = std::size_t{64} << 10;
constexpr long second_ns = 1'000'000'000;

Error failure(const std::string& doing, const fs::path& path, int error) {
    const bool full = error == ENOSPC || error == EDQUOT;
    return {full ? ErrorCode::full : ErrorCode::io, doing + " " + path.string() + ": " + std::strerror(error),
            full ? "make room on this file system" : ""};
}

struct Descriptor {
    int number;
    explicit Descriptor(int opened) : number(opened) {}
    ~Descriptor() {
        if (number >= 0) ::close(number);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
};

// errno, 0: done.
int copy_through_memory(int from, int to) {
    std::vector<char> piece(piece_bytes);
    for (;;) {
        const ssize_t got = ::read(from, piece.data(), piece.size());
        if (got == 0) return 0;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        for (ssize_t done = 0; done < got;) {
            const ssize_t put = ::write(to, piece.data() + done, static_cast<std::size_t>(got - done));
            if (put < 0 && errno == EINTR) continue;
            if (put < 0) return errno;
            done += put;
        }
    }
}

// Shared blocks, else in the kernel, else (also what is left of a copy that broke off) through memory.
int copy_bytes(int from, int to, off_t bytes) {
    if (::ioctl(to, FICLONE, from) == 0) return 0;
    off_t done = 0;
    while (done < bytes) {
        const ssize_t copied = ::copy_file_range(from, nullptr, to, nullptr, static_cast<std::size_t>(bytes - done), 0);
        if (copied <= 0) break;
        done += copied;
    }
    return done < bytes ? copy_through_memory(from, to) : 0;
}

class Copying {
  public:
    explicit Copying(const WorkerUser& user) : user_(user) {}

    // `archived`: the same directory as it was packed; what is not there was made by `setup:`.
    Status entries(const fs::path& from, const fs::path& to, const fs::path& archived) {
        std::error_code failed;
        fs::directory_iterator walk(from, failed);
        for (; !failed && walk != fs::directory_iterator(); walk.increment(failed))
            if (Status done = entry(*walk, to / walk->path().filename(), archived / walk->path().filename()); !done)
                return done;
        return failed ? Status(failure("reading", from, failed.value())) : Status(Done{});
    }

    Status own(const fs::path& path) const {
        if (user_.uid < 0) return Done{};
        if (::lchown(path.c_str(), static_cast<uid_t>(user_.uid), static_cast<gid_t>(user_.gid)) == 0) return Done{};
        return failure("giving to user " + user_.name, path, errno);
    }

  private:
    Status entry(const fs::directory_entry& from, const fs::path& to, const fs::path& archived) {
        std::error_code failed;
        const fs::file_type type = from.symlink_status(failed).type();
        const bool packed = fs::symlink_status(archived, failed).type() != fs::file_type::not_found;
        if (type == fs::file_type::directory && (packed || fs::is_empty(from.path(), failed)))
            return directory(from.path(), to, archived);
        if (type == fs::file_type::regular && packed) return file(from.path(), to);
        const std::string target = packed && type == fs::file_type::symlink
                                       ? fs::read_symlink(from.path(), failed).string()
                                       : from.path().string();
        if (::symlink(target.c_str(), to.c_str()) != 0) return failure("making the link", to, errno);
        return own(to);
    }

    Status directory(const fs::path& from, const fs::path& to, const fs::path& archived) {
        if (::mkdir(to.c_str(), 0755) != 0) return failure("making", to, errno);
        if (Status copied = entries(from, to, archived); !copied) return copied;
        return own(to);
    }

    Status file(const fs::path& from, const fs::path& to) const {
        const Descriptor source(::open(from.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
        struct stat facts{};
        if (source.number < 0 || ::fstat(source.number, &facts) != 0) return failure("reading", from, errno);
        const mode_t mode = (facts.st_mode & 0777) | S_IRUSR | S_IWUSR;
        const Descriptor target(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
        if (target.number < 0) return failure("making", to, errno);
        if (const int error = copy_bytes(source.number, target.number, facts.st_size))
            return failure("copying " + from.string() + " to", to, error);
        const timespec times[] = {facts.st_atim, facts.st_mtim};
        if (::futimens(target.number, times) != 0) return failure("keeping the times of", to, errno);
        return own(to);
    }

    const WorkerUser& user_;
};

Status fill(const AttemptGear& gear, const NodeFacts& facts, const std::string& place) {
    if (Status made = make_directory(place, 0711); !made) return made;
    Copying copying(gear.user);
    const std::string& sha256 = gear.prepare.code_sha256;
    const std::string archived = sha256.empty() ? "/dev/null" : facts.files.code(sha256);  // nothing lies below that
    if (!gear.working_dir.empty())
        if (Status copied = copying.entries(gear.working_dir, place, archived); !copied) return copied;
    return copying.own(place);
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

Result<std::string> start_directory(const AttemptGear& gear, const NodeFacts& facts, std::uint32_t rank) {
    const std::string place = facts.files.worker(key_of(gear.prepare.attempt), rank) + "/cwd";
    std::error_code unseen;
    if (fs::is_directory(place, unseen)) return place;
    const std::string aside = place + ".new";
    remove_tree(aside);  // of an agent that died over it
    if (Status filled = fill(gear, facts, aside); !filled) {
        remove_tree(aside);
        return filled.error();
    }
    if (::rename(aside.c_str(), place.c_str()) != 0) return failure("making", place, errno);
    return place;
}

void remove_start_directories(const AttemptGear& gear, const NodeFacts& facts) {
    const AttemptKey key = key_of(gear.prepare.attempt);
    for (const protocol::PeerNode& peer : gear.prepare.nodes)
        for (const std::uint32_t rank : peer.ranks)
            if (peer.node == facts.node)
                for (const char* name : {"/cwd", "/cwd.new"}) remove_tree(facts.files.worker(key, rank) + name);
}

Status start_directories(const AttemptGear& gear, const NodeFacts& facts) {
    for (const protocol::PeerNode& peer : gear.prepare.nodes)
        for (const std::uint32_t rank : peer.ranks)
            if (peer.node == facts.node)
                if (auto made = start_directory(gear, facts, rank); !made) return made.error();
    return Done{};
}

}  // namespace rtrain::agent
