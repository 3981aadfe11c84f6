// The Store of a directory. Each write goes to a file beside the target, which is synced and renamed, so no reader sees
// half a file. Beneath the storage path no link is followed: a user with write permission there cannot lead another
// reader or writer elsewhere.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "storage/uri/files/disk.hpp"
#include "storage/uri/files/path.hpp"
#include "storage/uri/files/taking.hpp"
#include "storage/uri/files/tree.hpp"

namespace rtrain::storage {
namespace {

using disk::Aside;

// Makes the storage path. Fails if a part of it is a link.
Status make_real_top(const std::string& root) {
    if (root.empty()) return Done{};
    const Descriptor slash(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!slash.open()) return disk::failure("opening", "/", errno);
    const auto top = make_beneath(slash, root.substr(1));
    return top ? Status(Done{}) : top.error();
}

// Returns the directory that contains `path`; makes it if necessary.
Result<Place> make_place(Store& store, const std::string& path) {
    if (auto fine = check_path(path); !fine) return fine.error();
    const auto top = store.made_top();
    if (!top) return top.error();
    const std::size_t slash = path.rfind('/');
    auto directory = make_beneath(*top, slash == std::string::npos ? "" : path.substr(0, slash));
    if (!directory) return directory.error();
    return Place{std::move(*directory), slash == std::string::npos ? path : path.substr(slash + 1)};
}

// Moves a file into the store. Returns false if the file lies on another file system, or is not a plain file that can
// be moved.
Result<bool> move(const std::string& local, const Place& place, const std::string& target, const Progress& progress) {
    struct stat seen{};
    {
        const Descriptor file(::open(local.c_str(), disk::reading | O_NOFOLLOW));
        if (!file.open() && errno == ELOOP) return false;
        if (!file.open() || ::fstat(file.number(), &seen) != 0) return disk::failure("reading", local, errno);
        if (!S_ISREG(seen.st_mode) || seen.st_nlink != 1) return false;
        if (auto synced = disk::sync(file.number(), local, seen.st_size, progress); !synced) return synced.error();
    }
    const int directory = place.directory.number();
    const char* name = place.name.c_str();
    if (::renameat(AT_FDCWD, local.c_str(), directory, name) != 0) {
        if (errno == EXDEV || errno == EPERM || errno == EACCES) return false;
        return disk::failure("writing", target, errno);
    }
    // Another user with write permission in the directory may have exchanged the file after it was examined.
    struct stat moved{};
    if (::fstatat(directory, name, &moved, AT_SYMLINK_NOFOLLOW) != 0) return disk::failure("writing", target, errno);
    if (!S_ISREG(moved.st_mode)) {
        ::unlinkat(directory, name, 0);
        return Error{ErrorCode::damaged, "moving " + local + ": it was exchanged for a link meanwhile", ""};
    }
    if (auto synced = disk::sync_directory(place.directory); !synced) return synced.error();
    if (progress) progress(seen.st_size, seen.st_size);
    return true;
}

Status copy(const Descriptor& source, const std::string& from, Result<Aside> aside, const Progress& progress) {
    if (!aside) return aside.error();
    if (auto copied = disk::copy_contents(source, from, *aside, progress); !copied) return copied;
    const auto all_written = [&](std::int64_t, std::int64_t total) { progress(total, total); };
    struct stat seen{};
    if (progress && ::fstat(aside->number(), &seen) == 0)
        if (auto synced = disk::sync(aside->number(), aside->target(), seen.st_size, all_written); !synced)
            return synced;
    return aside->replace();
}

class FileStore final : public Store {
  public:
    FileStore(std::string root, Links links) : root_(std::move(root)), links_(links) {}

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

    Result<Descriptor> open(const std::string& path) override {
        if (auto fine = check_path(path); !fine) return fine.error();
        const auto top = this->top();
        if (!top) return top.error();
        auto file = open_beneath(*top, path, disk::reading);
        if (!file) return file;
        if (auto plain = disk::size_of(*file, local_path(path)); !plain) return plain.error();
        return file;
    }

    Result<std::string> get(const std::string& path, std::int64_t most) override {
        const auto file = open(path);
        if (!file) return file.error();
        return read_opened(*file, local_path(path), most);
    }

    Status append(const std::string& path, const std::string& bytes) override {
        const std::string target = local_path(path);
        const auto place = make_place(*this, path);
        if (!place) return place.error();
        constexpr int appending = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY;
        const auto file = open_beneath(place->directory, place->name, appending, 0666);
        if (!file) return file.error();
        const auto before = disk::size_of(*file, target);
        if (!before) return before.error();
        Status written = disk::write_all(file->number(), bytes, target);
        if (written) written = disk::sync(file->number(), target);
        if (!written) {  // If the disk is full, the old content of the file stays whole.
            if (::ftruncate(file->number(), *before) != 0) return written;
            return written;
        }
        return *before == 0 ? disk::sync_directory(place->directory) : Status(Done{});
    }

    Status put_file(const std::string& local, const std::string& path, bool may_move,
                    const Progress& progress) override {
        if (may_move) {
            auto moved = take_file(*this, local, path, progress);
            if (!moved) return moved.error();
            if (*moved) return Done{};
        }
        const Descriptor source(::open(local.c_str(), disk::reading));
        // Reports a missing source before anything is written.
        if (!source.open()) return disk::failure("reading", local, errno);
        auto copied = put_opened(*this, source, local, path, progress);
        if (copied && may_move) ::unlink(local.c_str());
        return copied;
    }

    Status get_file(const std::string& path, const std::string& local, const Progress& progress) override {
        const auto source = open(path);
        if (!source) return source.error();
        return keep_opened(*source, local_path(path), local, progress);
    }

    Result<std::vector<StoreEntry>> list(const std::string& prefix) override {
        if (!prefix.empty())
            if (auto fine = check_path(prefix); !fine) return fine.error();
        std::vector<StoreEntry> entries;
        const auto top = this->top();
        if (!top && top.error().code == ErrorCode::not_found) return entries;
        if (!top) return top.error();
        const auto directory = open_beneath(*top, prefix, O_RDONLY | O_DIRECTORY);
        if (!directory && directory.error().code == ErrorCode::not_found) return entries;
        // The prefix may name a file. This is checked last, because another process may create the file at any moment.
        if (!directory) {
            const auto place = prefix.empty() ? Result<Place>(directory.error()) : place_beneath(*top, prefix);
            struct stat seen{};
            if (place && ::fstatat(place->directory.number(), place->name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISREG(seen.st_mode))
                return std::vector<StoreEntry>{{prefix, static_cast<std::int64_t>(seen.st_size)}};
            return directory.error();
        }
        if (Status added = add_files(*directory, prefix.empty() ? "" : prefix + "/", entries); !added)
            return added.error();
        std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
        return entries;
    }

    Status remove(const std::string& path) override {
        if (auto fine = check_path(path); !fine) return fine;
        const auto top = this->top();
        if (!top) return top.error().code == ErrorCode::not_found ? Status(Done{}) : top.error();
        const auto place = place_beneath(*top, path);
        if (!place) return is_absent(*top, path) ? Status(Done{}) : place.error();
        if (::unlinkat(place->directory.number(), place->name.c_str(), 0) != 0)
            return errno == ENOENT ? Status(Done{}) : disk::failure("removing", local_path(path), errno);
        return disk::sync_directory(place->directory);
    }

    Status remove_tree(const std::string& path) override {
        if (auto fine = check_path(path); !fine) return fine;
        const auto top = this->top();
        if (!top) return top.error().code == ErrorCode::not_found ? Status(Done{}) : top.error();
        return remove_all_beneath(*top, path);
    }

    bool local() const override { return true; }
    std::string local_path(const std::string& path) override { return root_ + "/" + path; }
    Result<Descriptor> top() override {
        if (links_ == Links::refused && !root_.empty()) return open_real_top(root_);
        return open_top(root_.empty() ? "/" : root_);
    }
    Result<Descriptor> made_top() override {
        auto there = top();
        if (there || there.error().code != ErrorCode::not_found) return there;
        const Status status = links_ == Links::refused ? make_real_top(root_) : disk::make_directories(root_);
        return status ? top() : status.error();
    }

  private:
    Result<Aside> write_aside(const std::string& path, const std::string& bytes) {
        auto place = make_place(*this, path);
        if (!place) return place.error();
        auto aside = Aside::begin(std::move(*place), local_path(path));
        if (!aside) return aside;
        if (auto written = disk::write_all(aside->number(), bytes, local_path(path)); !written) return written.error();
        return aside;
    }

    std::string root_;  // absolute, without a '/' at its end
    Links links_;
};

}  // namespace

Result<bool> take_file(Store& store, const std::string& local, const std::string& path, const Progress& progress) {
    if (!store.local()) return false;
    const auto place = make_place(store, path);
    if (!place) return place.error();
    return move(local, *place, store.local_path(path), progress);
}

Status put_opened(Store& store, const Descriptor& file, const std::string& name, const std::string& path,
                  const Progress& progress) {
    auto place = make_place(store, path);
    if (!place) return place.error();
    return copy(file, name, Aside::begin(std::move(*place), store.local_path(path)), progress);
}

Status copy_opened(const Descriptor& file, const std::string& name, const std::string& local, std::int64_t bytes) {
    auto aside = Aside::begin(local);
    if (!aside) return aside.error();
    if (auto copied = disk::copy_contents(file, name, *aside, {}, bytes); !copied) return copied;
    return aside->replace_unsynced();
}

Status keep_opened(const Descriptor& file, const std::string& name, const std::string& local,
                   const Progress& progress) {
    if (auto status = disk::make_directories(disk::directory_of(local)); !status) return status;
    return copy(file, name, Aside::begin(local), progress);
}

Result<std::unique_ptr<Store>> open_file_store(const std::string& root, Root look, Links links) {
    auto uri = parse_uri(root);
    if (!uri) return uri.error();
    if (is_bucket(uri->scheme))
        return Error{ErrorCode::invalid, "storage " + root + ": it is an object store, not a directory", ""};
    if (uri->scheme == Scheme::cluster)
        return Error{ErrorCode::invalid,
                     "storage " + root + ": cluster:// lies on the head and is not a directory here", ""};
    struct stat seen{};
    if (look == Root::seen && ::stat(uri->path.c_str(), &seen) == 0 && !S_ISDIR(seen.st_mode))
        return Error{ErrorCode::invalid, "storage " + root + ": it is a file, not a directory", ""};
    return std::unique_ptr<Store>(new FileStore(uri->path == "/" ? "" : uri->path, links));
}

}  // namespace rtrain::storage
