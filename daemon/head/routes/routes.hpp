// The table of all routes of the head. api.hpp authenticates and authorises every request. Each row has its
// description in openapi/described_routes.hpp.
#pragma once

#include <span>

#include "daemon/head/requests/route.hpp"

namespace rtrain::head {

std::span<const Route> routes();

}  // namespace rtrain::head
