// Texts as zstd frames with their checksum, for tables whose rows carry none of their own.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace rtrain::state {

// Returns the frame of a text. `level` is zstd's, 1 to 19.
std::string compressed(std::string_view text, int level);
// Returns the text of a frame. Empty if the bytes are no whole frame, or its text has more than `most` bytes.
std::optional<std::string> expanded(std::string_view frame, std::size_t most);
// Passes the text of a frame to `take` in pieces of some hundred KiB. Returns false if the bytes are no whole frame;
// the pieces that were passed before must then be dropped.
bool expand(std::string_view frame, const std::function<void(std::string_view piece)>& take);

}  // namespace rtrain::state
