// Unpacks an archive from another machine. Nothing is written outside of the target: names are checked, links are made
// after all files (so that nothing is written through one) and must resolve inside, and everything else is refused. The
// target appears complete, by one rename, or not at all.

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "storage/job_spec/archive/failure.hpp"
#include "storage/job_spec/job.hpp"
#include "storage/uri/files/tree.hpp"

namespace rtrain::spec {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t unpacked_bytes_most = 8LL << 30;
constexpr std::int64_t entries_most = 1'000'000;

bool below(const fs::path& path) {
    const std::string normal = path.lexically_normal().string();
    return !path.empty() && !path.is_absolute() && normal != ".." && !normal.starts_with("../");
}

bool has_parent_part(const fs::path& path) {
    return std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == ".."; });
}

class Unpacker {
  public:
    Unpacker(std::string archive, std::string target) : archive_name_(std::move(archive)), target_(std::move(target)) {}

    Status unpack() {
        reader_.reset(archive_read_new());
        archive_read_support_format_tar(reader_.get());
        archive_read_support_filter_zstd(reader_.get());
        if (archive_read_open_filename(reader_.get(), archive_name_.c_str(), 256 << 10) != ARCHIVE_OK) return trouble();
        for (archive_entry* entry = nullptr;;) {
            const int code = archive_read_next_header(reader_.get(), &entry);
            if (code == ARCHIVE_EOF) break;
            if (code < ARCHIVE_WARN) return trouble();
            if (++entries_ > entries_most)
                return refuse("", "it has more than " + std::to_string(entries_most) + " files");
            if (auto done = take(entry); !done) return done;
        }
        return make_links();
    }

  private:
    struct Free {
        void operator()(archive* a) const { archive_read_free(a); }
    };
    struct Link {
        std::string path, target;
    };

    Error refuse(const std::string& path, const std::string& why) const {
        return {ErrorCode::damaged,
                "archive " + archive_name_ + (path.empty() ? "" : ", entry \"" + path + "\"") + ": " + why,
                "it was not made by rtrain submit; nothing of it was unpacked"};
    }
    Error trouble() const {
        const char* text = archive_error_string(reader_.get());
        return {ErrorCode::damaged, "archive " + archive_name_ + ": " + (text != nullptr ? text : "cannot be read"),
                "submit the run again"};
    }

    Status take(archive_entry* entry) {
        const char* name = archive_entry_pathname(entry);
        const std::string path = name == nullptr ? "" : name;
        if (path.empty() || fs::path(path).is_absolute()) return refuse(path, "absolute and empty names are refused");
        if (has_parent_part(path)) return refuse(path, "names with \"..\" are refused");
        if (archive_entry_hardlink(entry) != nullptr) return refuse(path, "hard links are refused");
        const auto type = archive_entry_filetype(entry);
        std::error_code failed;
        if (type == AE_IFDIR) {
            fs::create_directories(target_ + "/" + path, failed);
            return failed ? Status(failure("making", path, failed.value())) : Status(Done{});
        }
        if (type == AE_IFLNK) {
            const char* text = archive_entry_symlink(entry);
            const std::string link = text == nullptr ? "" : text;
            if (fs::path(link).is_absolute() || !below(fs::path(path).parent_path() / link))
                return refuse(path, "its link to \"" + link + "\" leads out of the directory");
            links_.push_back({path, link});
            return Done{};
        }
        if (type != AE_IFREG) return refuse(path, "it is neither a file nor a directory nor a link");
        return write_file(path, (archive_entry_perm(entry) & 0100) != 0 ? 0755 : 0644);
    }

    Status write_file(const std::string& path, mode_t mode) {
        const std::string local = target_ + "/" + path;
        std::error_code failed;
        fs::create_directories(fs::path(local).parent_path(), failed);
        if (failed) return failure("making the directory of", local, failed.value());
        const int file = ::open(local.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
        if (file < 0)
            return errno == EEXIST ? Status(refuse(path, "it is there twice")) : failure("writing", local, errno);
        Status done = copy_data(file, local);
        ::close(file);
        return done;
    }

    Status copy_data(int file, const std::string& local) {
        for (;;) {
            const void* bytes = nullptr;
            std::size_t count = 0;
            la_int64_t offset = 0;
            const int code = archive_read_data_block(reader_.get(), &bytes, &count, &offset);
            if (code == ARCHIVE_EOF) return Done{};
            if (code < ARCHIVE_WARN) return trouble();
            bytes_ += static_cast<std::int64_t>(count);
            if (bytes_ > unpacked_bytes_most || offset > unpacked_bytes_most)
                return refuse("", "it unpacks to more than " + std::to_string(unpacked_bytes_most >> 30) + " GiB");
            for (std::size_t done = 0; done < count;) {
                const ssize_t written = ::pwrite(file, static_cast<const char*>(bytes) + done, count - done,
                                                 offset + static_cast<off_t>(done));
                if (written < 0) return failure("writing", local, errno);
                done += static_cast<std::size_t>(written);
            }
        }
    }

    Status make_links() {
        std::error_code failed;
        const std::string root = fs::canonical(target_, failed).string() + "/";
        for (const Link& link : links_) {
            const fs::path place = fs::path(target_) / link.path;
            // A link that was made before may have replaced a directory in this link's path, and may lead out of the
            // target through another link.
            const std::string parent = fs::weakly_canonical(place.parent_path(), failed).string() + "/";
            if (failed || !parent.starts_with(root)) return refuse(link.path, "its directory is a link that leads out");
            fs::create_directories(place.parent_path(), failed);
            fs::create_symlink(link.target, place, failed);
            if (failed)
                return failed == std::errc::file_exists ? Status(refuse(link.path, "it is there twice"))
                                                        : failure("making", place.string(), failed.value());
        }
        // A link may lead out of the target through another link, so all are checked after all exist.
        for (const Link& link : links_) {
            const fs::path place = fs::path(target_) / link.path;
            const std::string end = fs::weakly_canonical(place, failed).string() + "/";
            if (failed || !end.starts_with(root))
                return refuse(link.path, "its link to \"" + link.target + "\" leads out of the directory");
        }
        return Done{};
    }

    std::string archive_name_, target_;
    std::unique_ptr<archive, Free> reader_;
    std::vector<Link> links_;
    std::int64_t entries_ = 0, bytes_ = 0;
};

// The files are synced before the rename, so a power failure leaves no directory of empty files.
Status publish(const std::string& aside, const std::string& to_directory) {
    const int directory = ::open(aside.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return failure("opening", aside, errno);
    const int synced = ::syncfs(directory);
    const int why = errno;
    ::close(directory);
    if (synced != 0) return failure("bringing to the disk", aside, why);
    if (::rename(aside.c_str(), to_directory.c_str()) == 0) return Done{};
    // Another process has unpacked the same content since then.
    std::error_code failed;
    if ((errno == ENOTEMPTY || errno == EEXIST) && fs::is_directory(to_directory, failed)) return Done{};
    return failure("making", to_directory, errno);
}

}  // namespace

Status unpack_archive(const std::string& archive, const std::string& to_directory, const FinishUnpacking& finish) {
    std::error_code failed;
    if (!fs::exists(archive, failed)) return Error{ErrorCode::not_found, "archive " + archive + " does not exist", ""};
    const fs::path parent = fs::path(to_directory).parent_path();
    if (!parent.empty()) fs::create_directories(parent, failed);
    if (failed) return failure("making", parent.string(), failed.value());
    std::string aside = to_directory + ".unpacking-XXXXXX";
    if (::mkdtemp(aside.data()) == nullptr) return failure("making", aside, errno);
    fs::permissions(aside, fs::perms(0755), failed);
    Status done = Unpacker(archive, aside).unpack();
    if (done && finish) done = finish(aside);
    if (done) done = publish(aside, to_directory);
    const fs::path left = fs::absolute(aside);  // the directory still exists only after a failure
    const Status gone = storage::remove_all_beneath(left.parent_path(), left.filename());
    return done ? gone : done;
}

}  // namespace rtrain::spec
