// Checks paths from other programs that are to be used below a directory of rtrain.
#pragma once

#include <algorithm>
#include <string_view>

namespace rtrain::storage {

// Returns true if `path` cannot lead out of a directory: it is relative, without zero bytes and without empty, "." or
// ".." parts.
inline bool safe_relative(std::string_view path) {
    if (path.empty() || path.find('\0') != std::string_view::npos) return false;
    for (std::size_t begin = 0; begin <= path.size();) {
        const std::size_t end = std::min(path.find('/', begin), path.size());
        const std::string_view part = path.substr(begin, end - begin);
        if (part.empty() || part == "." || part == "..") return false;
        begin = end + 1;
    }
    return true;
}

}  // namespace rtrain::storage
