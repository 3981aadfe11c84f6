// See target.hpp. A path never holds a NUL or another control character, so that file names and logs made from it are
// what they look like; what ".." means is the handler's matter.
#include "daemon/net/http/target.hpp"

#include <optional>

namespace rtrain::net {
namespace {

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

enum class Plus { literal, space };

std::optional<std::string> decode(std::string_view text, Plus plus) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (c == '%') {
            if (i + 2 >= text.size()) return std::nullopt;
            int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
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

Error refused(std::string_view text, const std::string& why) {
    return {ErrorCode::invalid, "the request's target \"" + std::string(text.substr(0, 200)) + "\" " + why, ""};
}

}  // namespace

Result<Target> parse_target(std::string_view text) {
    if (text.empty() || text.front() != '/') return refused(text, "does not begin with a slash");
    text = text.substr(0, text.find('#'));
    const std::size_t mark = text.find('?');
    std::optional<std::string> path = decode(text.substr(0, mark), Plus::literal);
    if (!path) return refused(text, "has a bad percent escape in its path");
    for (unsigned char c : *path)
        if (c < 0x20 || c == 0x7f) return refused(text, "has a control character in its path");
    Target target{.path = std::move(*path)};
    std::string_view rest = mark == std::string_view::npos ? std::string_view{} : text.substr(mark + 1);
    while (!rest.empty()) {
        const std::size_t end = rest.find('&');
        std::string_view pair = rest.substr(0, end);
        rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
        if (pair.empty()) continue;
        const std::size_t equals = pair.find('=');
        auto name = decode(pair.substr(0, equals), Plus::space);
        auto value =
            decode(equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1), Plus::space);
        if (!name || !value) return refused(text, "has a bad percent escape in its query");
        target.query[*name] = *value;
    }
    return target;
}

}  // namespace rtrain::net
