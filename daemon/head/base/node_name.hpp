// Names that nodes may have: file names, host names and labels at once.
#pragma once

#include <string_view>

namespace rtrain::head {

// Whether a node may be called so: 1 to 63 of A-Z a-z 0-9 . _ -, of which the first is a letter or digit.
bool is_node_name(std::string_view text);

}  // namespace rtrain::head
