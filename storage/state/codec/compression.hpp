// Writes texts as zstd frames with checksums, for tables whose rows have no checksum of their own.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace rtrain::state {

// Returns the text as a zstd frame. `level` is zstd's, 1 to 19.
std::string compressed(std::string_view text, int level);
// Returns the text of a frame. Returns nullopt if the bytes are not a whole frame, or if the text has more than `most`
// bytes.
std::optional<std::string> expanded(std::string_view frame, std::size_t most);
// Passes the text of a frame to `take` in pieces of some hundred KiB. Returns false if the bytes are not a whole frame.
// The caller must then drop the pieces that it received before.
bool expand(std::string_view frame, const std::function<void(std::string_view piece)>& take);

}  // namespace rtrain::state
