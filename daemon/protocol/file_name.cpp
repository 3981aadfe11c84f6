// is_file_name stands apart from messages.cpp, which needs the JSON library: the pure coordinator asks it too.
#include "daemon/protocol/group.hpp"

namespace rtrain::protocol {

bool is_file_name(std::string_view text) {
    constexpr std::size_t longest = 255;  // bytes, of Linux
    return !text.empty() && text.size() <= longest && text != "." && text != ".." && text.find('/') == text.npos &&
           text.find('\0') == text.npos;
}

}  // namespace rtrain::protocol
