// The successful answers of each route, for openapi.json: one line of fields per kind of answer. A test sends every
// request to a live head and validates the answers.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "daemon/head/openapi/described_routes.hpp"

namespace rtrain::head {

nlohmann::ordered_json answer_schemas();  // the schemas of the answers by name, for components.schemas
// Returns the object "responses" of a route without its errors: status codes, content types, schemas.
nlohmann::ordered_json answers_of(const DescribedRoute& route);

}  // namespace rtrain::head
