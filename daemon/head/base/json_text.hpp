// JSON from text and back.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rtrain::head {

nlohmann::json parsed_or_null(const std::string& text);
std::string text_of(const nlohmann::json& value);  // what is no UTF-8 is shown with replacement characters

}  // namespace rtrain::head
