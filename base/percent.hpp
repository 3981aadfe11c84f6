// Percent-encoding of URLs (RFC 3986, section 2.1).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/hex.hpp"

namespace rtrain::storage {

enum class Slash { kept, encoded };
enum class Plus { literal, space };  // `space`: '+' means a space, as in a query

// Returns `text` with %XX in place of all characters but A-Z a-z 0-9 - . _ ~ (and slashes, if they are kept).
inline std::string percent_encoded(std::string_view text, Slash slash) {
    std::string out;
    for (const char c : text) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (letter || c == '-' || c == '.' || c == '_' || c == '~' || (c == '/' && slash == Slash::kept)) {
            out += c;
            continue;
        }
        constexpr std::string_view upper_digits = "0123456789ABCDEF";
        out += '%';
        out += upper_digits[static_cast<unsigned char>(c) >> 4];
        out += upper_digits[static_cast<unsigned char>(c) & 15];
    }
    return out;
}

// Returns the text; nullopt if a '%' is not followed by two hexadecimal digits.
inline std::optional<std::string> percent_decoded(std::string_view text, Plus plus) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (c == '%') {
            const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
            const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
            if (high < 0 || low < 0) return std::nullopt;
            c = static_cast<char>(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus == Plus::space) {
            c = ' ';
        }
        out += c;
    }
    return out;
}

}  // namespace rtrain::storage
