// The files of the page in a build without node: none.
#include "daemon/head/page/page_files.hpp"

namespace rtrain::head {

std::span<const PageFile> page_files() { return {}; }

}  // namespace rtrain::head
