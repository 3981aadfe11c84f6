// Parses the target of a request: path and query, percent-decoded, or an Error.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace rtrain::net {

struct Target {
    std::string path;
    std::map<std::string, std::string, std::less<>> query;
};

Result<Target> parse_target(std::string_view text);

}  // namespace rtrain::net
