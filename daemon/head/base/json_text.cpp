// See json_text.hpp.
#include "daemon/head/base/json_text.hpp"

#include <nlohmann/json.hpp>

#include "storage/base/json_depth.hpp"

namespace rtrain::head {

using nlohmann::json;

json parsed_or_null(const std::string& text) {
    if (storage::nests_too_deep(text)) return {};
    json value = json::parse(text, nullptr, false);
    return value.is_discarded() ? json() : value;
}

std::string text_of(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace rtrain::head
