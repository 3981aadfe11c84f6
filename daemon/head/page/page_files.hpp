// The files of the web page (daemon/dashboard), compressed, as a part of the binary. If the build has no Node.js, there
// are none.
#pragma once

#include <span>
#include <string_view>

namespace rtrain::head {

struct PageFile {
    std::string_view path;  // path in the URL: "/", "/assets/index-D4s.js"
    std::string_view content_type;
    std::string_view etag;  // ETag of the bytes, in quotation marks
    std::string_view gzip;
};

std::span<const PageFile> page_files();

}  // namespace rtrain::head
