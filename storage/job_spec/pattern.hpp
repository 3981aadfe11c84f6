// Regular expressions (ECMAScript), compiled once per thread. std::regex recurses with each character, so callers limit
// the text to `pattern_text_most` bytes.
#pragma once

#include <string>
#include <string_view>

namespace rtrain::spec {

inline constexpr std::size_t pattern_text_most = 4096;

bool has_pattern(const std::string& text, std::string_view pattern);  // true if it matches anywhere in the text
bool is_pattern(const std::string& text, std::string_view pattern);   // true if it matches the whole text

}  // namespace rtrain::spec
