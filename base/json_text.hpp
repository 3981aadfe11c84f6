// JSON from text and to text. The library's parser and writer are templates of thousands of lines. They are compiled
// here once instead of in each file that reads or writes a little JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_depth.hpp"

namespace rtrain {

// Returns the value of `text`. Returns a discarded value if the text is not JSON or is nested more deeply.
nlohmann::json parse_json(std::string_view text, std::size_t levels_most = storage::json_levels_most);
// Returns the same, but null instead of a discarded value.
nlohmann::json parsed_or_null(std::string_view text);
bool is_json(std::string_view text);  // accepts any depth; builds no tree

// Returns the text of `value` on one line, or with each level indented by `indent` spaces. Bytes that are not UTF-8
// become replacement characters.
std::string json_text(const nlohmann::json& value, int indent = -1);
// Returns the text on one line; nullopt if a name or a text in it is not UTF-8. For values that must not be altered.
std::optional<std::string> exact_json_text(const nlohmann::json& value);

}  // namespace rtrain
