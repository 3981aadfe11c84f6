// Bytes as lower-case hexadecimal digits.
#pragma once

#include <string>
#include <string_view>

namespace rtrain::storage {

inline constexpr std::string_view hex_digits = "0123456789abcdef";

// Returns two digits for each byte.
inline std::string hex(std::string_view bytes) {
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const char byte : bytes) {
        text += hex_digits[static_cast<unsigned char>(byte) >> 4];
        text += hex_digits[static_cast<unsigned char>(byte) & 15];
    }
    return text;
}

// Returns true if `text` consists of lower-case hexadecimal digits only, also if it is empty.
inline bool is_hex(std::string_view text) { return text.find_first_not_of(hex_digits) == std::string_view::npos; }

// Returns the value of one digit, in upper or lower case; -1 for anything else.
inline int hex_value(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

}  // namespace rtrain::storage
