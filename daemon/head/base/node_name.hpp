// Checks names of nodes: each must be valid as a file name, a host name and a label.
#pragma once

#include <string_view>

namespace rtrain::head {

// Returns true for a valid node name: 1 to 63 of A-Z a-z 0-9 . _ -, beginning with a letter or digit.
bool is_node_name(std::string_view text);

}  // namespace rtrain::head
