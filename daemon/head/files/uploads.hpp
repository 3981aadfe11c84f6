// Streamed uploads, of blobs and to cluster://: their valid names, the place where they are written, and the removal of
// unfinished ones.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "daemon/head/base/options.hpp"
#include "daemon/net/server.hpp"

namespace rtrain::head {

inline constexpr const char* uploads_folder = "/.uploads";  // below the storage root
inline constexpr std::uint64_t storage_body_max = 64u
                                                  // Bound on a piece, an appended part, or a file that must be new.
                                                  << 20;

Status blob_name(const std::string& text);     // usage error if it is no SHA-256
Status storage_name(const std::string& path);  // usage: it is no path below the storage root

// Returns the place where a streamed upload is written: beside its target, so that a rename moves it there. Fails if
// the target is no valid name of a blob or a file. Does not block; safe on the server's threads.
Result<std::string> upload_place(const HeadOptions& options, const net::Request& request);
// Returns `full` if an upload of so many bytes would leave less free than the reserve. Reads the file system.
enum class Upload { blob, storage };
Status upload_room(const HeadOptions& options, Upload kind, std::uint64_t bytes);
// Removes unfinished uploads to cluster://.
void sweep_uploads(const std::string& storage_root, std::int64_t untouched_ms);

}  // namespace rtrain::head
