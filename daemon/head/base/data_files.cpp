// See data_files.hpp.
#include "daemon/head/base/data_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "base/write_all.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::head {
namespace {

Error failed(const std::string& doing, const std::string& path) {
    const std::string message = doing + " " + path + ": " + std::strerror(errno);
    if (errno == ENOENT) return {ErrorCode::not_found, message, ""};
    if (errno == ENOSPC || errno == EDQUOT) return {ErrorCode::full, message, "make room on the disk of " + path};
    return {ErrorCode::io, message, "check the data directory's disk and permissions"};
}

void sync_directory(const std::string& directory) {
    const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    ::fsync(descriptor);
    ::close(descriptor);
}

}  // namespace

Status write_private(const std::string& path, const std::string& bytes) {
    return write_private(path, bytes, path + ".new");
}

Status write_private(const std::string& path, const std::string& bytes, const std::string& aside) {
    const int descriptor = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (descriptor < 0) return failed("creating", aside);
    const bool wrote = storage::write_all(descriptor, bytes) == 0 && ::fsync(descriptor) == 0;
    const Error why = failed("writing", aside);
    ::close(descriptor);
    if (!wrote) {
        ::unlink(aside.c_str());
        return why;
    }
    if (::rename(aside.c_str(), path.c_str()) != 0) {
        const Error stays = failed("renaming to", path);
        ::unlink(aside.c_str());
        return stays;
    }
    sync_directory(std::filesystem::path(path).parent_path().string());
    return Done{};
}

Result<std::string> read_file(const std::string& path) {
    errno = 0;
    std::ifstream in(path, std::ios::binary);
    if (!in) return failed("reading", path);
    std::string bytes;
    char piece[65536];
    while (in.read(piece, sizeof piece) || in.gcount() > 0) bytes.append(piece, static_cast<std::size_t>(in.gcount()));
    if (in.bad()) return failed("reading", path);
    return bytes;
}

std::string blob_path(const HeadOptions& options, const std::string& sha256) {
    return options.data_dir + "/blobs/" + sha256;
}

std::string values_directory(const HeadOptions& options, RunId run) {
    return options.data_dir + "/values/" + std::to_string(run.value);
}

void forget_values(const HeadOptions& options, RunId run) {
    std::error_code ignored;  // an error is ignored, since most runs have no values
    std::filesystem::remove_all(values_directory(options, run), ignored);
}

std::string scratch_path(const HeadOptions& options) {
    static std::atomic<std::uint64_t> counter{0};
    return options.data_dir + "/tmp/" + std::to_string(++counter) + "-" + security::random_hex(4);
}

}  // namespace rtrain::head
