// See json_text.hpp.
#include "base/json_text.hpp"

#include <nlohmann/json.hpp>

namespace rtrain {

using nlohmann::json;

json parse_json(std::string_view text, std::size_t levels_most) {
    if (storage::exceeds(text, {.levels = levels_most})) return json(json::value_t::discarded);
    return json::parse(text, nullptr, false);
}

json parsed_or_null(std::string_view text) {
    json value = parse_json(text);
    return value.is_discarded() ? json() : value;
}

bool is_json(std::string_view text) { return json::accept(text); }

std::string json_text(const json& value, int indent) {
    return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

std::optional<std::string> exact_json_text(const json& value) {
    try {
        return value.dump();
    } catch (const json::type_error&) {  // 316: a text is not UTF-8
        return std::nullopt;
    }
}

}  // namespace rtrain
