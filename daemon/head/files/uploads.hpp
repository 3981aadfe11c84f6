// Streamed uploads, of blobs and to cluster://: what they may be called, where they are written, and for how long those
// that nobody finished stay.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "daemon/head/base/options.hpp"
#include "daemon/net/server.hpp"

namespace rtrain::head {

inline constexpr const char* uploads_folder = "/.uploads";  // below the storage root
inline constexpr std::uint64_t storage_body_max = 64u
                                                  << 20;  // of a piece, an appended part, or a file that must be new

Status blob_name(const std::string& text);     // usage: it is no SHA-256
Status storage_name(const std::string& path);  // usage: it is no path below the storage root

// Where a streamed upload is written: beside its target, so that moving it there is a rename. Refused: its target is no
// name that a blob or a file may have. Waits for nothing; safe on the server's threads.
Result<std::string> upload_place(const HeadOptions& options, const net::Request& request);
// Full: with so many bytes more, an upload would leave less free than the reserve. Asks the file system.
enum class Upload { blob, storage };
Status upload_room(const HeadOptions& options, Upload kind, std::uint64_t bytes);
void sweep_uploads(const std::string& storage_root, std::int64_t untouched_ms);  // to cluster://, that nobody finished

}  // namespace rtrain::head
