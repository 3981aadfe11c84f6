// The Store of a directory. Every write is aside, synced and renamed; nobody ever reads half a file.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "storage/uri/disk.hpp"
#include "storage/uri/path.hpp"
#include "storage/uri/taking.hpp"

namespace rtrain::storage {
namespace {

namespace fs = std::filesystem;
using disk::Aside;

// False: the file lies on another file system, or is not a plain file that can be given away.
Result<bool> move(const std::string& local, const std::string& target, const Progress& progress) {
    struct stat seen{};
    {
        const Descriptor file(::open(local.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (!file.open() && errno == ELOOP) return false;
        if (!file.open() || ::fstat(file.number(), &seen) != 0) return disk::failure("reading", local, errno);
        if (!S_ISREG(seen.st_mode) || seen.st_nlink != 1) return false;
        if (auto synced = disk::sync(file.number(), local, seen.st_size, progress); !synced) return synced.error();
    }
    if (::rename(local.c_str(), target.c_str()) != 0) {
        if (errno == EXDEV || errno == EPERM || errno == EACCES) return false;
        return disk::failure("writing", target, errno);
    }
    struct stat moved{};  // who may write beside the file could have put another one there since it was looked at
    if (::lstat(target.c_str(), &moved) != 0) return disk::failure("writing", target, errno);
    if (!S_ISREG(moved.st_mode)) {
        ::unlink(target.c_str());
        return Error{ErrorCode::damaged, "moving " + local + ": it was exchanged for a link meanwhile", ""};
    }
    if (auto synced = disk::sync_directory(disk::directory_of(target)); !synced) return synced.error();
    if (progress) progress(seen.st_size, seen.st_size);
    return true;
}

class FileStore final : public Store {
  public:
    explicit FileStore(std::string root) : root_(std::move(root)) {}

    Result<bool> create(const std::string& path, const std::string& bytes) override {
        auto aside = write_aside(path, bytes);
        if (!aside) return aside.error();
        return aside->take_place();
    }

    Status put(const std::string& path, const std::string& bytes) override {
        auto aside = write_aside(path, bytes);
        if (!aside) return aside.error();
        return aside->replace();
    }

    Result<std::string> get(const std::string& path) override {
        if (auto fine = check_path(path); !fine) return fine.error();
        const Descriptor file(::open(local_path(path).c_str(), O_RDONLY | O_CLOEXEC));
        if (!file.open()) return disk::failure("reading", local_path(path), errno);
        std::string bytes;
        for (;;) {
            char piece[65536];
            const ssize_t got = ::read(file.number(), piece, sizeof piece);
            if (got < 0 && errno == EINTR) continue;
            if (got < 0) return disk::failure("reading", local_path(path), errno);
            if (got == 0) return bytes;
            bytes.append(piece, static_cast<std::size_t>(got));
        }
    }

    Status append(const std::string& path, const std::string& bytes) override {
        const std::string target = local_path(path);
        if (auto ready = make_place(path); !ready) return ready;
        const Descriptor file(::open(target.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
        if (!file.open()) return disk::failure("appending to", target, errno);
        struct stat before{};
        if (::fstat(file.number(), &before) != 0) return disk::failure("appending to", target, errno);
        Status written = disk::write_all(file.number(), bytes, target);
        if (written) written = disk::sync(file.number(), target);
        if (!written) {  // a full disk: what is there stays whole
            if (::ftruncate(file.number(), before.st_size) != 0) return written;
            return written;
        }
        return before.st_size == 0 ? disk::sync_directory(disk::directory_of(target)) : Status(Done{});
    }

    Status put_file(const std::string& local, const std::string& path, bool may_move,
                    const Progress& progress) override {
        const std::string target = local_path(path);
        if (auto ready = make_place(path); !ready) return ready;
        if (may_move) {
            auto moved = move(local, target, progress);
            if (!moved) return moved.error();
            if (*moved) return Done{};
        }
        auto copied = copy(local, target, progress);
        if (copied && may_move) ::unlink(local.c_str());
        return copied;
    }

    Status get_file(const std::string& path, const std::string& local, const Progress& progress) override {
        if (auto fine = check_path(path); !fine) return fine;
        if (auto made = disk::make_directories(disk::directory_of(local)); !made) return made;
        return copy(local_path(path), local, progress);
    }

    Result<std::vector<StoreEntry>> list(const std::string& prefix) override {
        if (!prefix.empty())
            if (auto fine = check_path(prefix); !fine) return fine.error();
        const std::string top = prefix.empty() ? (root_.empty() ? "/" : root_) : local_path(prefix);
        std::vector<StoreEntry> entries;
        std::error_code failed;
        struct stat seen{};
        if (::lstat(top.c_str(), &seen) == 0 && S_ISREG(seen.st_mode))
            return std::vector<StoreEntry>{{prefix, static_cast<std::int64_t>(seen.st_size)}};
        fs::recursive_directory_iterator walk(top, failed), end;
        if (failed == std::errc::no_such_file_or_directory) return entries;
        for (; !failed && walk != end; walk.increment(failed)) {
            const fs::path& file = walk->path();
            // A file may go while we look: it is then not listed.
            if (::lstat(file.c_str(), &seen) != 0) continue;
            if (disk::is_temporary(file.filename().string())) {  // a run's directory that is being removed as well
                walk.disable_recursion_pending();
                continue;
            }
            if (!S_ISREG(seen.st_mode)) continue;
            entries.push_back({file.string().substr(root_.size() + 1), static_cast<std::int64_t>(seen.st_size)});
        }
        if (failed && failed != std::errc::no_such_file_or_directory)
            return disk::failure("listing", top, failed.value());
        std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
        return entries;
    }

    Status remove(const std::string& path) override {
        if (auto fine = check_path(path); !fine) return fine;
        const std::string target = local_path(path);
        if (::unlink(target.c_str()) != 0)
            return errno == ENOENT || errno == ENOTDIR ? Status(Done{}) : disk::failure("removing", target, errno);
        return disk::sync_directory(disk::directory_of(target));
    }

    Status remove_tree(const std::string& path) override {
        if (auto fine = check_path(path); !fine) return fine;
        const std::string target = local_path(path);
        struct stat seen{};
        if (::lstat(target.c_str(), &seen) != 0 && (errno == ENOENT || errno == ENOTDIR)) return Done{};
        std::error_code failed;
        fs::remove_all(target, failed);
        if (failed) return disk::failure("removing", target, failed.value());
        return disk::sync_directory(disk::directory_of(target));
    }

    bool local() const override { return true; }
    std::string local_path(const std::string& path) override { return root_ + "/" + path; }

  private:
    Status make_place(const std::string& path) {
        if (auto fine = check_path(path); !fine) return fine;
        return disk::make_directories(disk::directory_of(local_path(path)));
    }

    Result<Aside> write_aside(const std::string& path, const std::string& bytes) {
        if (auto ready = make_place(path); !ready) return ready.error();
        auto aside = Aside::begin(local_path(path));
        if (!aside) return aside;
        if (auto written = disk::write_all(aside->number(), bytes, local_path(path)); !written) return written.error();
        return aside;
    }

    static Status copy(const std::string& from, const std::string& to, const Progress& progress) {
        struct stat seen{};  // a source that is not there is said before anything is written
        if (::stat(from.c_str(), &seen) != 0) return disk::failure("reading", from, errno);
        auto aside = Aside::begin(to);
        if (!aside) return aside.error();
        if (auto copied = disk::copy_contents(from, *aside, progress); !copied) return copied;
        const auto all_written = [&](std::int64_t, std::int64_t total) { progress(total, total); };
        if (progress)
            if (auto synced = disk::sync(aside->number(), to, seen.st_size, all_written); !synced) return synced;
        return aside->replace();
    }

    std::string root_;  // absolute, without a '/' at its end
};

}  // namespace

Result<bool> take_file(Store& store, const std::string& local, const std::string& path, const Progress& progress) {
    if (!store.local()) return false;
    if (auto fine = check_path(path); !fine) return fine.error();
    const std::string target = store.local_path(path);
    if (auto made = disk::make_directories(disk::directory_of(target)); !made) return made.error();
    return move(local, target, progress);
}

Result<std::unique_ptr<Store>> open_file_store(const std::string& root) {
    auto uri = parse_uri(root);
    if (!uri) return uri.error();
    if (uri->scheme == Scheme::s3 || uri->scheme == Scheme::gs)
        return Error{ErrorCode::invalid, "storage " + root + ": it is an object store, not a directory", ""};
    if (uri->scheme == Scheme::cluster)
        return Error{ErrorCode::invalid,
                     "storage " + root + ": cluster:// lies on the head and is not a directory here", ""};
    struct stat seen{};
    if (::stat(uri->path.c_str(), &seen) == 0 && !S_ISDIR(seen.st_mode))
        return Error{ErrorCode::invalid, "storage " + root + ": it is a file, not a directory", ""};
    return std::unique_ptr<Store>(new FileStore(uri->path == "/" ? "" : uri->path));
}

}  // namespace rtrain::storage
