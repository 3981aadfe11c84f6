// Enough of XML for S3: no attributes are needed, no element has one of its own name inside.

#include "storage/uri/s3/xml.hpp"

#include <array>
#include <cstdlib>
#include <utility>

namespace rtrain::storage::s3 {
namespace {

constexpr std::array<std::pair<std::string_view, char>, 5> entities{
    {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}}};

constexpr std::size_t reference_most = 16;  // "&#x10FFFF;" with some zeros, so that text without an end is read once

void append_code_point(std::string& out, unsigned long code) {
    if (code < 0x80) {
        out += static_cast<char>(code);
    } else if (code < 0x800) {
        out += static_cast<char>(0xC0 | (code >> 6));
        out += static_cast<char>(0x80 | (code & 63));
    } else if (code < 0x10000) {
        out += static_cast<char>(0xE0 | (code >> 12));
        out += static_cast<char>(0x80 | ((code >> 6) & 63));
        out += static_cast<char>(0x80 | (code & 63));
    } else {
        out += static_cast<char>(0xF0 | ((code >> 18) & 7));
        out += static_cast<char>(0x80 | ((code >> 12) & 63));
        out += static_cast<char>(0x80 | ((code >> 6) & 63));
        out += static_cast<char>(0x80 | (code & 63));
    }
}

std::string decoded(std::string_view text) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        bool known = false;
        for (const auto& [name, letter] : entities)
            if (!known && text.substr(at).starts_with(name)) {
                out += letter;
                at += name.size();
                known = true;
            }
        if (known) continue;
        const std::string_view reference = text.substr(at, reference_most);
        const std::size_t end = reference.starts_with("&#") ? reference.find(';') : text.npos;
        if (end != text.npos) {
            const std::string number(reference.substr(2, end - 2));
            const bool hex = number.starts_with("x") || number.starts_with("X");
            append_code_point(out, std::strtoul(number.c_str() + (hex ? 1 : 0), nullptr, hex ? 16 : 10));
            at += end + 1;
        } else {
            out += text[at++];
        }
    }
    return out;
}

}  // namespace

std::vector<std::string_view> elements(std::string_view xml, std::string_view name) {
    const std::string open = "<" + std::string(name), close = "</" + std::string(name) + ">";
    std::vector<std::string_view> found;
    for (std::size_t at = xml.find(open); at != xml.npos; at = xml.find(open, at)) {
        at += open.size();
        if (at >= xml.size() || (xml[at] != '>' && xml[at] != ' ')) continue;  // a longer name, or empty: <Name/>
        const std::size_t begin = xml.find('>', at);
        const std::size_t end = begin == xml.npos ? begin : xml.find(close, begin);
        if (end == xml.npos) break;
        found.push_back(xml.substr(begin + 1, end - begin - 1));
        at = end + close.size();
    }
    return found;
}

std::string element(std::string_view xml, std::string_view name) {
    const auto found = elements(xml, name);
    return found.empty() ? "" : decoded(found.front());
}

std::string xml_text(std::string_view text) {
    std::string out;
    for (const char c : text) {
        bool written = false;
        for (const auto& [name, letter] : entities)
            if (c == letter) {
                out += name;
                written = true;
            }
        if (!written) out += c;
    }
    return out;
}

}  // namespace rtrain::storage::s3
