#include "runtime/worker/staging.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "runtime/worker/last_error.hpp"

namespace rtrain::worker {
namespace {

namespace fs = std::filesystem;
constexpr const char* manifest_name = ".manifest.json";
constexpr int depth_max = 64;  // deeper: a link that leads back up

class Descriptor {
  public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int get() const { return number_; }
    int close() { return ::close(std::exchange(number_, -1)); }

  private:
    int number_;
};

StagingFault fault(int error, const std::string& doing) { return {error, doing + ": " + errno_text(error)}; }

// Plain reading and writing, for file systems between which the kernel cannot copy. errno, 0: done.
int pump(int from, int to) {
    std::string buffer(std::size_t{1} << 20, '\0');
    for (;;) {
        const ssize_t got = ::read(from, buffer.data(), buffer.size());
        if (got == 0) return 0;
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        for (ssize_t done = 0; done < got;) {
            const ssize_t put = ::write(to, buffer.data() + done, static_cast<std::size_t>(got - done));
            if (put < 0 && errno != EINTR) return errno;
            if (put > 0) done += put;
        }
    }
}

int copy_bytes(int from, int to) {
    if (::ioctl(to, FICLONE, from) == 0) return 0;
    constexpr std::size_t piece = std::size_t{64} << 20;
    for (bool first = true;; first = false) {
        const ssize_t copied = ::copy_file_range(from, nullptr, to, nullptr, piece, 0);
        if (copied > 0) continue;
        // Some file systems answer 0 at once for files whose size they do not know (/proc): `pump` finds the truth.
        if (copied == 0) return first ? pump(from, to) : 0;
        if (errno == EINTR) continue;
        const bool unable =
            errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP || errno == EPERM;
        return unable ? pump(from, to) : errno;
    }
}

StagingFault copy_file(const fs::path& from, const fs::path& to, mode_t mode) {
    const Descriptor source(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
    if (source.get() < 0) return fault(errno, "cannot read " + from.string());
    Descriptor target(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode & 0777) | S_IRUSR | S_IWUSR));
    if (target.get() < 0) return fault(errno, "cannot create " + to.string());
    if (const int error = copy_bytes(source.get(), target.get())) {
        return fault(error, "cannot copy " + from.string() + " to " + to.string());
    }
    if (target.close() != 0) return fault(errno, "cannot write " + to.string());
    return {};
}

StagingFault copy_entries(const fs::path& from, const fs::path& to, int depth) {
    if (depth > depth_max) return fault(ELOOP, "cannot copy " + from.string());
    std::error_code error;
    fs::directory_iterator entries(from, error);
    for (; !error && entries != fs::directory_iterator(); entries.increment(error)) {
        const fs::path& source = entries->path();
        const fs::path target = to / source.filename();
        if (depth == 0 && source.filename() == manifest_name) continue;
        struct stat facts{};
        if (::stat(source.c_str(), &facts) != 0) return fault(errno, "cannot read " + source.string());
        StagingFault inner;
        if (S_ISDIR(facts.st_mode)) {
            if (::mkdir(target.c_str(), 0777) != 0) return fault(errno, "cannot create " + target.string());
            inner = copy_entries(source, target, depth + 1);
        } else if (S_ISREG(facts.st_mode)) {
            inner = copy_file(source, target, facts.st_mode);
        } else {
            inner = fault(EINVAL, source.string() + " is neither a file nor a directory");
        }
        if (inner.error != 0) return inner;
    }
    return error ? fault(error.value(), "cannot read " + from.string()) : StagingFault{};
}

void remove_entries(const fs::path& directory) {
    std::error_code ignored;  // what cannot be removed now goes with the attempt's staging directory
    for (const auto& entry : fs::directory_iterator(directory, ignored)) fs::remove_all(entry.path(), ignored);
}

}  // namespace

bool StagingFault::full() const { return error == ENOSPC || error == EDQUOT; }

StagingFault copy_tree(const std::string& from, const std::string& to) {
    StagingFault outcome = copy_entries(from, to, 0);
    if (outcome.error != 0) remove_entries(to);
    return outcome;
}

StagingFault move_tree(const std::string& from, const std::string& to) {
    std::error_code ignored;
    fs::remove(fs::path(from) / manifest_name, ignored);
    if (::rename(from.c_str(), to.c_str()) == 0) return {};
    if (errno != EXDEV) return fault(errno, "cannot move " + from + " to " + to);
    StagingFault outcome = copy_tree(from, to);
    if (outcome.error == 0) fs::remove_all(from, ignored);
    return outcome;
}

}  // namespace rtrain::worker
