// The files of the page (daemon/dashboard), compressed, in the binary. A build without node contains none.
#pragma once

#include <span>
#include <string_view>

namespace rtrain::head {

struct PageFile {
    std::string_view path;  // "/", "/assets/index-D4s.js"
    std::string_view content_type;
    std::string_view etag;  // the bytes' ETag, in quotation marks
    std::string_view gzip;
};

std::span<const PageFile> page_files();

}  // namespace rtrain::head
