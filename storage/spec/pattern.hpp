// Regular expressions (ECMAScript), which are compiled once in each thread. std::regex recurses with each character:
// who asks bounds the text, to `pattern_text_most` bytes or fewer.
#pragma once

#include <string>
#include <string_view>

namespace rtrain::spec {

inline constexpr std::size_t pattern_text_most = 4096;

bool has_pattern(const std::string& text, std::string_view pattern);  // somewhere
bool is_pattern(const std::string& text, std::string_view pattern);   // as a whole

}  // namespace rtrain::spec
