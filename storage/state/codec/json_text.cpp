// Writes strings and doubles as JSON. The header describes how bytes that are not UTF-8 are kept.
#include "storage/state/codec/json_text.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <stdexcept>

namespace rtrain::state {
namespace {

constexpr std::uint32_t byte_plane = 0x10FF00;

bool continues(std::string_view text, std::size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

// Returns the length of the valid UTF-8 sequence at the front (RFC 3629: shortest form, no surrogates), 0 if there is
// none.
std::size_t sequence_length(std::string_view text, std::uint32_t& code_point) {
    struct Form {
        unsigned char mask, lead;
        std::size_t length;
        std::uint32_t lowest;
    };
    static constexpr Form forms[] = {
        {0x80, 0x00, 1, 0}, {0xE0, 0xC0, 2, 0x80}, {0xF0, 0xE0, 3, 0x800}, {0xF8, 0xF0, 4, 0x10000}};
    auto first = static_cast<unsigned char>(text[0]);
    for (const Form& form : forms) {
        if ((first & form.mask) != form.lead) continue;
        code_point = first & static_cast<unsigned char>(~form.mask);
        for (std::size_t i = 1; i < form.length; ++i) {
            if (!continues(text, i)) return 0;
            code_point = code_point << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
        }
        bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
        return code_point < form.lowest || code_point > 0x10FFFF || surrogate ? 0 : form.length;
    }
    return 0;
}

void append_byte_as_code_point(std::string& out, unsigned char byte) {
    std::uint32_t point = byte_plane + byte;
    out += static_cast<char>(0xF0 | point >> 18);
    out += static_cast<char>(0x80 | (point >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (point >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (point & 0x3F));
}

// Returns the length of the part at the front that JSON writes unchanged, which is usually the whole text.
std::size_t plain_length(std::string_view text) {
    const auto ends = [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte < 0x20 || byte >= 0x80 || c == '"' || c == '\\';
    };
    return static_cast<std::size_t>(std::find_if(text.begin(), text.end(), ends) - text.begin());
}

void append_ascii(std::string& out, char c) {
    static constexpr char hex[] = "0123456789abcdef";
    if (c == '"' || c == '\\') {
        out += '\\';
        out += c;
    } else if (c == '\n') {
        out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
        out += "\\u00";
        out += hex[static_cast<unsigned char>(c) >> 4];
        out += hex[c & 15];
    } else {
        out += c;
    }
}

}  // namespace

void append_string(std::string& out, std::string_view bytes) {
    out += '"';
    while (!bytes.empty()) {
        if (const std::size_t plain = plain_length(bytes); plain > 0) {
            out += bytes.substr(0, plain);
            bytes.remove_prefix(plain);
            continue;
        }
        std::uint32_t point = 0;
        std::size_t length = sequence_length(bytes, point);
        if (length == 0 || point >= byte_plane) {
            length = 1;
            append_byte_as_code_point(out, static_cast<unsigned char>(bytes[0]));
        } else if (length == 1) {
            append_ascii(out, bytes[0]);
        } else {
            out += bytes.substr(0, length);
        }
        bytes.remove_prefix(length);
    }
    out += '"';
}

std::string bytes_of(std::string_view decoded) {
    if (decoded.find("\xF4\x8F\xBC") == std::string_view::npos &&
        decoded.find("\xF4\x8F\xBD") == std::string_view::npos &&
        decoded.find("\xF4\x8F\xBE") == std::string_view::npos &&
        decoded.find("\xF4\x8F\xBF") == std::string_view::npos)
        return std::string(decoded);  // Most strings contain no private code point, so they are returned unchanged.
    std::string out;
    while (!decoded.empty()) {
        std::uint32_t point = 0;
        std::size_t length = sequence_length(decoded, point);
        if (length == 4 && point >= byte_plane)
            out += static_cast<char>(point - byte_plane);
        else
            out += decoded.substr(0, length = length == 0 ? 1 : length);
        decoded.remove_prefix(length);
    }
    return out;
}

void append_double(std::string& out, double value) {
    char text[40];
    if (!std::isfinite(value)) {
        auto end = std::to_chars(text, text + sizeof text, std::bit_cast<std::uint64_t>(value), 16).ptr;
        out += "\"0x" + std::string(text, end) + '"';
        return;
    }
    // to_chars writes the shortest text that reads back as the same value.
    auto end = std::to_chars(text, text + sizeof text, value).ptr;
    std::string_view number(text, static_cast<std::size_t>(end - text));
    out += number;
    if (number.find_first_of(".e") == std::string_view::npos) out += ".0";
}

double double_of_bits(std::string_view text) {
    std::uint64_t bits = 0;
    auto [end, failed] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    if (text.substr(0, 2) != "0x" || failed != std::errc() || end != text.data() + text.size())
        throw std::invalid_argument("\"" + std::string(text) + "\" is not a number");
    return std::bit_cast<double>(bits);
}

void append_wide(std::string& out, __int128 value) {
    if (value >= INT64_MIN && value <= INT64_MAX) {
        out += std::to_string(static_cast<std::int64_t>(value));
        return;
    }
    std::string digits;
    const bool negative = value < 0;
    for (; value != 0; value /= 10)
        digits += static_cast<char>('0' + static_cast<int>(negative ? -(value % 10) : value % 10));
    out += std::string("\"") + (negative ? "-" : "");
    out.append(digits.rbegin(), digits.rend());
    out += '"';
}

__int128 wide_of_digits(std::string_view text) {
    const bool negative = text.starts_with('-');
    const std::string_view digits = text.substr(negative ? 1 : 0);
    constexpr std::size_t most = 38;  // number of digits that always fit into 128 bits
    if (digits.empty() || digits.size() > most || digits.find_first_not_of("0123456789") != std::string_view::npos)
        throw std::invalid_argument("\"" + std::string(text) + "\" is not a whole number");
    __int128 value = 0;
    for (const char digit : digits) value = value * 10 + (digit - '0');
    return negative ? -value : value;
}

}  // namespace rtrain::state
