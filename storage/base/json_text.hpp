// JSON from text and back. The parser and the writer of the library are templates of thousands of lines: they are
// compiled here, once, and not in each file that reads or writes a little JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "storage/base/json_depth.hpp"

namespace rtrain {

// Returns the value of `text`; a discarded one, which is of no type, where it is no JSON or has more levels.
nlohmann::json parse_json(std::string_view text, std::size_t levels_most = storage::json_levels_most);
// Returns the same, but null in place of the discarded value.
nlohmann::json parsed_or_null(std::string_view text);
bool is_json(std::string_view text);  // of any depth, and no tree is made

// Returns the text of `value`: on one line, or each level indented by so many spaces. Bytes that are no UTF-8 become
// replacement characters.
std::string json_text(const nlohmann::json& value, int indent = -1);
// Returns the text on one line; none where a name or a text in it is no UTF-8: what must arrive as it is.
std::optional<std::string> exact_json_text(const nlohmann::json& value);

}  // namespace rtrain
