// Escapes control characters, and defines the few colours.
#include "cmd/text/terminal.hpp"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace rtrain::cmd {
namespace {

struct Letter {
    std::uint32_t code = 0;
    std::size_t bytes = 1;
    bool valid = false;
};

Letter letter_at(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(at);
    if (first < 0x80) return {first, 1, true};
    const std::size_t bytes = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
    if (bytes == 0 || first >= 0xf5 || at + bytes > text.size()) return {first, 1, false};
    std::uint32_t code = first & (0xffu >> (bytes + 1));
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((byte(at + i) & 0xc0) != 0x80) return {first, 1, false};
        code = code << 6 | (byte(at + i) & 0x3f);
    }
    constexpr std::uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool valid = code >= least[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return valid ? Letter{code, bytes, true} : Letter{first, 1, false};
}

bool obeyed(std::uint32_t code) {  // true: a terminal would interpret the character instead of showing it
    const bool control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    const bool reorders =
        (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0x200e || code == 0x200f;
    return control || reorders || code == 0x2028 || code == 0x2029 || code == 0xfeff;
}

std::string visible(std::string_view text, std::string_view allowed) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const Letter letter = letter_at(text, at);
        const bool pass =
            letter.valid && (!obeyed(letter.code) ||
                             (letter.code < 0x80 && allowed.find(static_cast<char>(letter.code)) != allowed.npos));
        if (pass) {
            out += text.substr(at, letter.bytes);
        } else {
            char escape[16];
            std::snprintf(escape, sizeof escape, letter.valid && letter.code > 0xff ? "\\u%04x" : "\\x%02x",
                          letter.code);
            out += escape;
        }
        at += letter.bytes;
    }
    return out;
}

}  // namespace

std::string shown(std::string_view text) { return visible(text, "\n\t"); }
std::string shown_line(std::string_view text) { return visible(text, ""); }

std::size_t width(std::string_view text) {
    std::size_t columns = 0;
    for (std::size_t at = 0; at < text.size();) {
        const Letter letter = letter_at(text, at);
        const std::uint32_t c = letter.code;
        const bool joins = c >= 0x300 && c < 0x370;
        const bool wide = (c >= 0x1100 && c < 0x1160) || (c >= 0x2e80 && c < 0xa4d0) || (c >= 0xac00 && c < 0xd7a4) ||
                          (c >= 0xf900 && c < 0xfb00) || (c >= 0xff00 && c < 0xff61) || c >= 0x1f300;
        columns += joins ? 0 : wide ? 2 : 1;
        at += letter.bytes;
    }
    return columns;
}

std::string painted(std::string_view text, Colour colour) {
    const char* start = "";
    switch (colour) {
        case Colour::none:
            return std::string(text);
        case Colour::red:
            start = "\x1b[31m";
            break;
        case Colour::green:
            start = "\x1b[32m";
            break;
        case Colour::yellow:
            start = "\x1b[33m";
            break;
        case Colour::cyan:
            start = "\x1b[36m";
            break;
        case Colour::dim:
            start = "\x1b[2m";
            break;
    }
    return start + std::string(text) + "\x1b[0m";
}

Colour state_colour(std::string_view state) {
    if (state == "FAILED" || state == "LOST" || state == "fail") return Colour::red;
    if (state == "RUNNING" || state == "READY" || state == "SUCCEEDED" || state == "ok") return Colour::green;
    if (state == "RECOVERING" || state == "DRAINING" || state == "QUARANTINED" || state == "STOPPING" ||
        state == "warn")
        return Colour::yellow;
    if (state == "STARTING" || state == "PLACED" || state == "RESIZING") return Colour::cyan;
    if (state == "STOPPED") return Colour::dim;
    return Colour::none;
}

bool colour_wanted(std::string_view choice, int descriptor) {
    if (choice == "always") return true;
    if (choice == "never") return false;
    const char* no_colour = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    if (no_colour != nullptr && *no_colour != 0) return false;
    return isatty(descriptor) != 0 && term != nullptr && std::string_view(term) != "dumb";
}

bool interactive() { return isatty(STDIN_FILENO) != 0 && isatty(STDERR_FILENO) != 0; }

}  // namespace rtrain::cmd
