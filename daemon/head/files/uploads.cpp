// See uploads.hpp.
#include "daemon/head/files/uploads.hpp"

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "base/hex.hpp"
#include "daemon/head/base/data_files.hpp"
#include "daemon/head/logs/log_store.hpp"
#include "daemon/security/security.hpp"

namespace rtrain::head {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t path_bytes_max = 1'000, name_bytes_max = 255;  // bytes; no file system allows longer names

bool untouched(const fs::path& file, std::int64_t for_ms) {
    std::error_code gone;
    const auto written = fs::last_write_time(file, gone);
    return !gone && fs::file_time_type::clock::now() - written > std::chrono::milliseconds(for_ms);
}

}  // namespace

// Removes uploads to which no piece was added for a while. A client that continues an upload does so within seconds.
void sweep_uploads(const std::string& storage_root, std::int64_t untouched_ms) {
    std::error_code failed;
    for (fs::directory_iterator at(storage_root + uploads_folder, failed), end; !failed && at != end;
         at.increment(failed)) {
        if (!untouched(at->path(), untouched_ms)) continue;
        std::error_code stays;
        if (!fs::remove(at->path(), stays) || stays)
            std::fprintf(stderr, "rtrain head: %s stays: %s\n", at->path().c_str(), stays.message().c_str());
    }
}

Status blob_name(const std::string& text) {
    if (text.size() == 64 && storage::is_hex(text)) return Done{};
    return Error{ErrorCode::usage, "'" + text.substr(0, 100) + "' is not a SHA-256 in lower-case hex",
                 "name the blob by the hash of its bytes"};
}

Status storage_name(const std::string& path) {
    const Error bad{ErrorCode::usage, "'" + path.substr(0, 100) + "' is no path below the storage root",
                    "use relative paths without '..', of at most " + std::to_string(path_bytes_max) +
                        " bytes, each name of at most " + std::to_string(name_bytes_max)};
    if (path.empty() || path.size() > path_bytes_max || path.find('\0') != std::string::npos) return bad;
    for (const fs::path& part : fs::path(path))
        if (part == ".." || part == "." || part.empty() || part == "/" || part.native().size() > name_bytes_max)
            return bad;
    if (path.starts_with(".uploads")) return bad;
    return Done{};
}

Result<std::string> upload_place(const HeadOptions& options, const net::Request& request) {
    constexpr std::string_view blobs = "/v1/blobs/", stored = "/v1/storage/";
    const bool blob = request.path.starts_with(blobs);
    const std::string name = request.path.substr((blob ? blobs : stored).size());
    const Status named = blob ? blob_name(name) : storage_name(name);
    if (!named) return named.error();
    return blob ? scratch_path(options)
                : options.storage_root + uploads_folder + "/" + security::random_hex(12) + ".whole";
}

Status upload_room(const HeadOptions& options, Upload kind, std::uint64_t bytes) {
    const std::string& root = kind == Upload::blob ? options.data_dir : options.storage_root;
    const std::uint64_t free = options.free_bytes ? options.free_bytes(root) : free_bytes(root);
    const auto reserve = static_cast<std::uint64_t>(options.storage_reserve);
    if (free >= reserve && free - reserve >= bytes) return Done{};
    return Error{ErrorCode::full,
                 root + " on the head has " + std::to_string(free >> 20) + " MiB free; " +
                     std::to_string(reserve >> 20) + " MiB stay in reserve, " + std::to_string(bytes >> 20) +
                     " MiB were to be written",
                 "make room on the head, or give the runs a storage_path of their own"};
}

}  // namespace rtrain::head
