// Finds the route of a request.
#pragma once

#include <map>
#include <string>

#include "daemon/head/routes/routes.hpp"

namespace rtrain::head {

using Variables = std::map<std::string, std::string>;

struct Found {
    const Route* route = nullptr;
    bool path_known = false;  // true: the path exists, but with another method
    Variables variables;
};
Found find_route(const net::Request& request);

}  // namespace rtrain::head
