// The rule for file names in a checkpoint. It is apart from messages.cpp, which needs the JSON library, because the
// pure coordinator uses it too.
#include "base/checkpoint_name.hpp"
#include "daemon/protocol/group.hpp"

namespace rtrain::protocol {

bool is_checkpoint_directory(std::string_view text) {
    constexpr std::size_t longest = 255;  // bytes, the limit of Linux
    if (text.find('/') != text.npos) return storage::checkpoint_path_fault(text).empty();
    return !text.empty() && text.size() <= longest && text != "." && text != ".." && text.find('\0') == text.npos;
}

}  // namespace rtrain::protocol
