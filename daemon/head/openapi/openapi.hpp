// openapi.json: the description of the API for machines, from the rows of described_routes.hpp and schemas.cpp.
#pragma once

#include <string>

namespace rtrain::head {

std::string openapi();

}  // namespace rtrain::head
