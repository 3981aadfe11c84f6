// Replaces page_files.hpp's list by an empty one, in a build without Node.js.
#include "daemon/head/page/page_files.hpp"

namespace rtrain::head {

std::span<const PageFile> page_files() { return {}; }

}  // namespace rtrain::head
