// Base64 (RFC 4648, section 4), for bytes inside of JSON, which holds valid UTF-8 only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rtrain::storage {

inline constexpr std::string_view base64_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> base64_values() {
    std::array<std::int8_t, 256> table{};
    table.fill(-1);
    for (std::size_t i = 0; i < base64_digits.size(); ++i)
        table[static_cast<unsigned char>(base64_digits[i])] = static_cast<std::int8_t>(i);
    return table;
}

// Returns four digits for each three bytes. The last group is padded with '='.
inline std::string base64_encode(std::string_view bytes) {
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        const std::string_view three = bytes.substr(at, 3);
        std::uint32_t group = 0;
        for (std::size_t i = 0; i < 3; ++i)
            group = group << 8 | (i < three.size() ? static_cast<unsigned char>(three[i]) : 0U);
        for (std::size_t i = 0; i < 4; ++i)
            out.push_back(i <= three.size() ? base64_digits[group >> (18 - 6 * i) & 63] : '=');
    }
    return out;
}

// Returns the bytes; nullopt if `text` is not padded base64.
inline std::optional<std::string> base64_decode(std::string_view text) {
    static constexpr auto value_of = base64_values();
    if (text.size() % 4 != 0) return std::nullopt;
    std::size_t padding = 0;
    while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
    const std::size_t digits = text.size() - padding;
    std::string out;
    out.reserve(text.size() / 4 * 3);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const int value = i < digits ? value_of[static_cast<unsigned char>(text[i])] : 0;
        if (value < 0) return std::nullopt;
        group = group << 6 | static_cast<std::uint32_t>(value);
        if (i % 4 != 3) continue;
        for (int shift = 16; shift >= 0; shift -= 8) out.push_back(static_cast<char>(group >> shift & 0xff));
        group = 0;
    }
    out.resize(out.size() - padding);
    return out;
}

}  // namespace rtrain::storage
