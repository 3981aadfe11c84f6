// Names that nodes may have: file names, host names and labels at once.
#pragma once

#include <string_view>

namespace rtrain::head {

// Returns true for a valid node name: 1 to 63 of A-Z a-z 0-9 . _ -, beginning with a letter or digit.
bool is_node_name(std::string_view text);

}  // namespace rtrain::head
