// See target.hpp. A path never contains NUL or another control character, so that file names and logs show it as it is.
// Handlers decide what ".." means.
#include "daemon/net/http/target.hpp"

#include <optional>

#include "base/percent.hpp"

namespace rtrain::net {
namespace {

Error refused(std::string_view text, const std::string& why) {
    return {ErrorCode::invalid, "the request's target \"" + std::string(text.substr(0, 200)) + "\" " + why, ""};
}

}  // namespace

Result<Target> parse_target(std::string_view text) {
    if (text.empty() || text.front() != '/') return refused(text, "does not begin with a slash");
    text = text.substr(0, text.find('#'));
    const std::size_t mark = text.find('?');
    std::optional<std::string> path = storage::percent_decoded(text.substr(0, mark), storage::Plus::literal);
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
        auto name = storage::percent_decoded(pair.substr(0, equals), storage::Plus::space);
        auto value = storage::percent_decoded(
            equals == std::string_view::npos ? std::string_view{} : pair.substr(equals + 1), storage::Plus::space);
        if (!name || !value) return refused(text, "has a bad percent escape in its query");
        target.query[*name] = *value;
    }
    return target;
}

}  // namespace rtrain::net
