// Computes SHA-256 of files, in pieces that fit into the processor's cache.

#include "base/crypto/digest.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::storage {
Result<std::string> hash_file(const std::string& local_path, const Progress& progress) {
    const Descriptor file(::open(local_path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.open())
        return Error{errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                     "reading " + local_path + ": " + std::strerror(errno), ""};
    return hash_opened(file, local_path, progress);
}

Result<std::string> hash_opened(const Descriptor& file, const std::string& name, const Progress& progress) {
    ::posix_fadvise(file.number(), 0, 0, POSIX_FADV_SEQUENTIAL);
    crypto::Sha256 digest;
    std::int64_t done = 0;
    std::vector<char> piece(256 << 10);
    for (;;) {
        const ssize_t got = ::read(file.number(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Error{ErrorCode::io, "reading " + name + ": " + std::strerror(errno), ""};
        if (got == 0) break;
        digest.add({piece.data(), static_cast<std::size_t>(got)});
        done += got;
        if (progress) progress(done, done);
    }
    return digest.hex();
}

}  // namespace rtrain::storage
