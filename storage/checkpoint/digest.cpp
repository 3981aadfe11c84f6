// SHA-256 by OpenSSL, in pieces that stay in the processor's cache.

#include "storage/checkpoint/digest.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "storage/checkpoint/run_directory.hpp"

namespace rtrain::storage {
namespace {

class Digest {
  public:
    Digest() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
        RTRAIN_CHECK(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1);
    }
    void add(const void* bytes, std::size_t count) {
        RTRAIN_CHECK(EVP_DigestUpdate(context_.get(), bytes, count) == 1);
    }
    std::string hex() {
        unsigned char sum[EVP_MAX_MD_SIZE];
        unsigned int size = 0;
        RTRAIN_CHECK(EVP_DigestFinal_ex(context_.get(), sum, &size) == 1);
        std::string text;
        for (unsigned int i = 0; i < size; ++i) {
            text += "0123456789abcdef"[sum[i] >> 4];
            text += "0123456789abcdef"[sum[i] & 15];
        }
        return text;
    }

  private:
    std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace

std::string hash_bytes(std::string_view bytes) {
    Digest digest;
    digest.add(bytes.data(), bytes.size());
    return digest.hex();
}

Result<std::string> hash_file(const std::string& local_path, const Progress& progress) {
    const Descriptor file(::open(local_path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.open())
        return Error{errno == ENOENT ? ErrorCode::not_found : ErrorCode::io,
                     "reading " + local_path + ": " + std::strerror(errno), ""};
    return hash_opened(file, local_path, progress);
}

Result<std::string> hash_opened(const Descriptor& file, const std::string& name, const Progress& progress) {
    ::posix_fadvise(file.number(), 0, 0, POSIX_FADV_SEQUENTIAL);
    Digest digest;
    std::int64_t done = 0;
    std::vector<char> piece(256 << 10);
    for (;;) {
        const ssize_t got = ::read(file.number(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Error{ErrorCode::io, "reading " + name + ": " + std::strerror(errno), ""};
        if (got == 0) break;
        digest.add(piece.data(), static_cast<std::size_t>(got));
        done += got;
        if (progress) progress(done, done);
    }
    return digest.hex();
}

}  // namespace rtrain::storage
