// Iterates over the members of a JSON object as pieces of its text. It builds no tree, so a text of megabytes needs no
// further memory. Safe for invalid JSON. 11s is no JSON object; some members may have been given before that shows. =>
// is no JSON object, possibly after calls for some members.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace rtrain::storage {

// Calls `member` with each name, as it stands between its quotes, and the text of its value. Returns false if `object`
// is no JSON object; some members may have been given before that shows.
bool each_member(std::string_view object,
                 const std::function<void(std::string_view name, std::string_view value)>& member);

// Returns true if a name, as it stands between its quotes, means `name`.
bool is_name(std::string_view quoted, std::string_view name);

// Returns the name that stands between its quotes. Bytes that are no name in JSON stay as they are.
std::string name_of(std::string_view quoted);

// Returns the number that the text of a value means; nullopt for other values.
std::optional<double> number_of(std::string_view value);

// Appends a JSON text without the blanks and line ends between its values.
void append_on_one_line(std::string& out, std::string_view json);

}  // namespace rtrain::storage
