// Streamed uploads, of blobs and to cluster://: checks their names, chooses where they are written, and removes
// unfinished ones.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "daemon/head/base/options.hpp"
#include "daemon/net/server.hpp"

namespace rtrain::head {

// folder of unfinished uploads, relative to the storage root
inline constexpr const char* uploads_folder = "/.uploads";
inline constexpr std::uint64_t storage_body_max = 64u
                                                  // The most bytes of a piece, of an appended part, and of a file that
                                                  // must be new.
                                                  << 20;

Status blob_name(const std::string& text);     // Error `usage` if the text is not a SHA-256 hash
Status storage_name(const std::string& path);  // Error `usage` if the path is not a valid path below the storage root

// Returns the place where a streamed upload is written: beside its target, so that a rename moves it there. Fails if
// the target is no valid name of a blob or a file. Does not block; safe on the server's threads.
Result<std::string> upload_place(const HeadOptions& options, const net::Request& request);
// Returns `full` if an upload of so many bytes would leave less free space than the reserve. Reads the file system.
enum class Upload { blob, storage };
Status upload_room(const HeadOptions& options, Upload kind, std::uint64_t bytes);
// Removes unfinished uploads to cluster:// to which nothing was added for `untouched_ms`.
void sweep_uploads(const std::string& storage_root, std::int64_t untouched_ms);

}  // namespace rtrain::head
