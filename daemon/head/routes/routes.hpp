// The table of all routes of the head. api.hpp authenticates and authorises every request. The OpenAPI description is
// made from this table.
#pragma once

#include <span>
#include <string>

#include "daemon/head/requests/route.hpp"

namespace rtrain::head {

std::span<const Route> routes();
std::string openapi();  // openapi.cpp: made from the table

}  // namespace rtrain::head
