// Base64 (RFC 4648) for the bytes of logs: they may be no valid UTF-8, which JSON text must be.
#include <array>

#include "daemon/protocol/fields_json.hpp"

namespace rtrain::protocol {
namespace {

constexpr char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> make_values() {
    std::array<std::int8_t, 256> out{};
    for (auto& value : out) value = -1;
    for (int i = 0; i < 64; ++i) out[static_cast<unsigned char>(alphabet[i])] = static_cast<std::int8_t>(i);
    return out;
}
constexpr std::array<std::int8_t, 256> values = make_values();

}  // namespace

std::string base64_encode(const std::string& bytes) {
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        std::uint32_t group = 0;
        for (std::size_t i = 0; i < 3; ++i)
            group = group << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
        for (int i = 0; i < 4; ++i) {
            const bool padding = at + static_cast<std::size_t>(i) > bytes.size();
            out.push_back(padding ? '=' : alphabet[group >> (18 - 6 * i) & 63]);
        }
    }
    return out;
}

std::optional<std::string> base64_decode(const std::string& text) {
    if (text.size() % 4 != 0) return std::nullopt;
    std::string out;
    out.reserve(text.size() / 4 * 3);
    for (std::size_t at = 0; at < text.size(); at += 4) {
        std::size_t padding = 0;
        if (at + 4 == text.size()) padding = text[at + 3] != '=' ? 0 : text[at + 2] != '=' ? 1 : 2;
        std::uint32_t group = 0;
        for (std::size_t i = 0; i < 4; ++i) {
            const int value = i >= 4 - padding ? 0 : values[static_cast<unsigned char>(text[at + i])];
            if (value < 0) return std::nullopt;
            group = group << 6 | static_cast<std::uint32_t>(value);
        }
        for (std::size_t i = 0; i < 3 - padding; ++i) out.push_back(static_cast<char>(group >> (16 - 8 * i) & 255));
    }
    return out;
}

}  // namespace rtrain::protocol
