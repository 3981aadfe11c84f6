// Writes texts of messages as JSON. ASCII texts, which are most and may have many quotes, are written here. The library
// writes the rest.
#include <algorithm>

#include "base/json_text.hpp"
#include "daemon/protocol/fields_json.hpp"

namespace rtrain::protocol {
namespace {

bool is_plain(char c) { return static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x80; }

}  // namespace

void append_text(std::string& out, std::string_view text) {
    if (!std::all_of(text.begin(), text.end(), is_plain)) {
        out += json_text(json(text));
        return;
    }
    out += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    out += '"';
}

}  // namespace rtrain::protocol
