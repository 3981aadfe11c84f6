// Bounds for JSON from other programs. The parser does not recurse, but copying and writing do, so deep nesting would
// overflow the stack and end the daemon. Each value takes many times the memory of its text.
#pragma once

#include <cstddef>
#include <string_view>

namespace rtrain::storage {

inline constexpr std::size_t json_levels_most = 200;

struct JsonBounds {
    std::size_t levels = json_levels_most;
    std::size_t values = ~std::size_t{0};
};

// Returns the position of the closing quote of the text that begins at `at`; npos if there is none.
inline std::size_t end_of_quoted(std::string_view json, std::size_t at) {
    for (std::size_t quote = json.find('"', at); quote != std::string_view::npos; quote = json.find('"', quote + 1)) {
        std::size_t backslashes = 0;
        while (quote - backslashes > at && json[quote - backslashes - 1] == '\\') ++backslashes;
        if (backslashes % 2 == 0) return quote;
    }
    return std::string_view::npos;
}

// Returns true if `json` exceeds one of the bounds. Takes linear time and no memory, and accepts text that is not JSON.
inline bool exceeds(std::string_view json, JsonBounds most) {
    std::size_t level = 0, values = 1;
    for (std::size_t i = 0; i < json.size(); ++i) {
        const char c = json[i];
        if (c == '"') {
            i = end_of_quoted(json, i + 1);
            if (i == std::string_view::npos) return false;
        } else if (c == '[' || c == '{') {
            if (++level > most.levels || ++values > most.values) return true;
        } else if (c == ',') {
            if (++values > most.values) return true;
        } else if ((c == ']' || c == '}') && level > 0) {
            --level;
        }
    }
    return false;
}

inline bool nests_too_deep(std::string_view json) { return exceeds(json, {}); }

}  // namespace rtrain::storage
