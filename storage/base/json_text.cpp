// See json_text.hpp.
#include "storage/base/json_text.hpp"

#include <nlohmann/json.hpp>

#include "storage/base/json_depth.hpp"

namespace rtrain {

using nlohmann::json;

json parse_json(std::string_view text) {
    if (storage::nests_too_deep(text)) return json(json::value_t::discarded);
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

}  // namespace rtrain
