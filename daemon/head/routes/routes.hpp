// Every route of the head: one table, one place that authenticates and authorises (api.hpp), no route without. The
// OpenAPI page is made from this table.
#pragma once

#include <span>
#include <string>

#include "daemon/head/requests/route.hpp"

namespace rtrain::head {

std::span<const Route> routes();
std::string openapi();  // openapi.cpp: from the table

}  // namespace rtrain::head
