// What each route answers when it does what was asked, for the page for machines: one line of fields per kind of
// answer, and which kind a route gives. A test asks a live head everything and validates the answers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace rtrain::head {

nlohmann::ordered_json answer_schemas();  // by name, for components.schemas
// The object "responses" without the errors: status codes, content types, schemas.
nlohmann::ordered_json answers_of(const std::string& method, const std::string& pattern);

}  // namespace rtrain::head
