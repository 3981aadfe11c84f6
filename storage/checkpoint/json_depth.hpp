// JSON from elsewhere that is nested without bound: it is parsed without recursion, but copied and written with it, and
// a stack that overflows ends the daemon.
#pragma once

#include <cstddef>
#include <string_view>

namespace rtrain::storage {

inline constexpr std::size_t json_levels_most = 200;

inline bool nests_too_deep(std::string_view json) {
    std::size_t level = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < json.size(); ++i) {
        const char c = json[i];
        if (quoted && c == '\\')
            ++i;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '[' || c == '{') && ++level > json_levels_most)
            return true;
        else if (!quoted && (c == ']' || c == '}') && level > 0)
            --level;
    }
    return false;
}

}  // namespace rtrain::storage
