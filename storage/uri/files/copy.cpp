// Copies a file's content in the cheapest possible way: by shared blocks, inside of the kernel, or through memory.

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "storage/uri/files/disk.hpp"

namespace rtrain::storage::disk {
namespace {

constexpr std::size_t piece_bytes = 8U << 20;

bool kernel_cannot(int error_number) {
    return error_number == EXDEV || error_number == EINVAL || error_number == ENOSYS || error_number == EOPNOTSUPP ||
           error_number == EPERM;
}

// Copies at most `most` bytes through memory. Returns 0 at the end of the file.
Result<std::size_t> copy_piece(int from, const std::string& from_path, const Aside& to, std::size_t most,
                               std::vector<char>& memory) {
    memory.resize(most);
    ssize_t got = 0;
    do got = ::read(from, memory.data(), memory.size());
    while (got < 0 && errno == EINTR);
    if (got < 0) return failure("reading", from_path, errno);
    const auto bytes = static_cast<std::size_t>(got);
    if (auto written = write_all(to.number(), {memory.data(), bytes}, to.target()); !written) return written.error();
    return bytes;
}

}  // namespace

Status copy_contents(const Descriptor& source, const std::string& from, Aside& to, const Progress& progress,
                     std::optional<std::int64_t> bytes) {
    const auto size = size_of(source, from);
    if (!size) return size.error();
    const std::int64_t total = *size;
    const Error changed{ErrorCode::io, "reading " + from + ": its size changed while it was copied", ""};
    if (bytes && total != *bytes) return changed;
    if (::ioctl(to.number(), FICLONE, source.number()) == 0) {
        struct stat cloned{};
        if (::fstat(to.number(), &cloned) != 0) return failure("writing", to.target(), errno);
        if (bytes && cloned.st_size != *bytes) return changed;
        if (progress) progress(total, total);
        return Done{};
    }
    bool in_kernel = true;
    std::vector<char> memory;
    std::int64_t done = 0;
    while (done < total) {
        const std::size_t most = std::min(piece_bytes, static_cast<std::size_t>(total - done));
        std::size_t piece = 0;
        if (in_kernel) {
            const ssize_t copied = ::copy_file_range(source.number(), nullptr, to.number(), nullptr, most, 0);
            if (copied < 0 && errno == EINTR) continue;
            if (copied < 0 && !kernel_cannot(errno)) return failure("writing", to.target(), errno);
            // Some kernels copy nothing from special file systems and report no error.
            if (copied <= 0) {
                in_kernel = false;
                continue;
            }
            piece = static_cast<std::size_t>(copied);
        } else {
            auto copied = copy_piece(source.number(), from, to, most, memory);
            if (!copied) return copied.error();
            piece = *copied;
        }
        if (piece == 0) break;
        done += static_cast<std::int64_t>(piece);
        if (progress) progress(done, total);
    }
    if (done < total) return Error{ErrorCode::io, "reading " + from + ": it became shorter while it was copied", ""};
    return Done{};
}

}  // namespace rtrain::storage::disk
