// The files of the page (daemon/dashboard), compressed, in the binary. A build without node has none.
#pragma once

#include <span>
#include <string_view>

namespace rtrain::head {

struct PageFile {
    std::string_view path;  // "/", "/assets/index-D4s.js"
    std::string_view content_type;
    std::string_view etag;  // of its bytes, with quotation marks
    std::string_view gzip;
};

std::span<const PageFile> page_files();

}  // namespace rtrain::head
