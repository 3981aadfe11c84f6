// Bytes of a stream into frames' bodies, and base64 for what is not text.
#include <array>

#include "runtime/worker/frames/frames.hpp"

namespace rtrain::worker {

Result<std::optional<std::string>> FrameReader::next() {
    constexpr std::size_t prefix = 4;
    const std::size_t waiting = buffer_.size() - start_;
    if (waiting < prefix) return std::optional<std::string>{};
    std::size_t size = 0;
    for (std::size_t i = 0; i < prefix; ++i) size = size << 8 | static_cast<unsigned char>(buffer_[start_ + i]);
    if (size > frame_bytes_max) {
        return Error{ErrorCode::invalid,
                     "a frame of " + std::to_string(size) + " bytes was announced; the most is " +
                         std::to_string(frame_bytes_max),
                     "the other end does not speak rtrain's worker protocol, or a broadcast is too large"};
    }
    if (waiting < prefix + size) return std::optional<std::string>{};
    std::optional<std::string> body = buffer_.substr(start_ + prefix, size);
    start_ += prefix + size;
    if (start_ == buffer_.size()) {
        buffer_.clear();
        start_ = 0;
    } else if (start_ > (std::size_t{1} << 20)) {
        buffer_.erase(0, start_);
        start_ = 0;
    }
    return body;
}

namespace {

constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<signed char, 256> values() {
    std::array<signed char, 256> table{};
    table.fill(-1);
    for (std::size_t i = 0; i < digits.size(); ++i) {
        table[static_cast<unsigned char>(digits[i])] = static_cast<signed char>(i);
    }
    return table;
}

}  // namespace

std::string base64_encode(std::string_view bytes) {
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t at = 0; at < bytes.size(); at += 3) {
        const std::string_view three = bytes.substr(at, 3);
        std::uint32_t group = 0;
        for (std::size_t i = 0; i < 3; ++i) {
            group = group << 8 | (i < three.size() ? static_cast<unsigned char>(three[i]) : 0U);
        }
        for (std::size_t i = 0; i < 4; ++i) out.push_back(i <= three.size() ? digits[group >> (18 - 6 * i) & 63] : '=');
    }
    return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
    static constexpr auto value_of = values();
    if (text.size() % 4 != 0) return std::nullopt;
    std::size_t padding = 0;
    while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
    const std::size_t digits_count = text.size() - padding;
    std::string out;
    out.reserve(text.size() / 4 * 3);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const int value = i < digits_count ? value_of[static_cast<unsigned char>(text[i])] : 0;
        if (value < 0) return std::nullopt;
        group = group << 6 | static_cast<std::uint32_t>(value);
        if (i % 4 != 3) continue;
        for (int shift = 16; shift >= 0; shift -= 8) out.push_back(static_cast<char>(group >> shift & 0xff));
        group = 0;
    }
    out.resize(out.size() - padding);
    return out;
}

}  // namespace rtrain::worker
