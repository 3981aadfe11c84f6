// See json_members.hpp.
#include "base/json_members.hpp"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json_depth.hpp"
#include "base/json_text.hpp"

namespace rtrain::storage {
namespace {

constexpr std::string_view blanks = " \t\r\n";

std::size_t past_blanks(std::string_view text, std::size_t at) {
    at = text.find_first_not_of(blanks, at);
    return at == std::string_view::npos ? text.size() : at;
}

bool stands(std::string_view text, std::size_t at, char c) { return at < text.size() && text[at] == c; }

// Returns the place behind the value that begins at `at`, which is `at` where none begins.
std::size_t past_value(std::string_view text, std::size_t at) {
    std::size_t level = 0;
    for (; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '"') {
            at = end_of_quoted(text, at + 1);
            if (at == std::string_view::npos) return text.size();
        } else if (c == '[' || c == '{') {
            ++level;
        } else if (c == ']' || c == '}') {
            if (level == 0) return at;
            --level;
        } else if (c == ',' && level == 0) {
            return at;
        }
    }
    return at;
}

std::string_view without_end(std::string_view text) {
    const std::size_t last = text.find_last_not_of(blanks);
    return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

}  // namespace

bool each_member(std::string_view object,
                 const std::function<void(std::string_view name, std::string_view value)>& member) {
    std::size_t at = past_blanks(object, 0);
    if (!stands(object, at, '{')) return false;
    at = past_blanks(object, at + 1);
    if (stands(object, at, '}')) return past_blanks(object, at + 1) == object.size();
    while (stands(object, at, '"')) {
        const std::size_t quote = end_of_quoted(object, at + 1);
        if (quote == std::string_view::npos) return false;
        const std::string_view name = object.substr(at + 1, quote - at - 1);
        at = past_blanks(object, quote + 1);
        if (!stands(object, at, ':')) return false;
        at = past_blanks(object, at + 1);
        const std::size_t end = past_value(object, at);
        const std::string_view value = without_end(object.substr(at, end - at));
        if (value.empty() || end == object.size()) return false;
        member(name, value);
        if (object[end] == '}') return past_blanks(object, end + 1) == object.size();
        if (object[end] != ',') return false;
        at = past_blanks(object, end + 1);
    }
    return false;
}

bool is_name(std::string_view quoted, std::string_view name) {
    if (quoted.find('\\') == std::string_view::npos) return quoted == name;
    return name_of(quoted) == name;
}

std::string name_of(std::string_view quoted) {
    if (quoted.find('\\') == std::string_view::npos) return std::string(quoted);
    const nlohmann::json text = parse_json('"' + std::string(quoted) + '"');
    return text.is_string() ? text.get<std::string>() : std::string(quoted);
}

std::optional<double> number_of(std::string_view value) {
    if (value.empty() || (value[0] != '-' && (value[0] < '0' || value[0] > '9')))
        return std::nullopt;  // from_chars: inf
    double number = 0;
    const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (wrong != std::errc() || end != value.data() + value.size()) return std::nullopt;
    return number;
}

void append_on_one_line(std::string& out, std::string_view json) {
    for (std::size_t at = 0; at < json.size();) {
        const std::size_t end = std::min(json.find_first_of("\" \t\r\n", at), json.size());
        out.append(json, at, end - at);
        at = end;
        if (stands(json, at, '"')) {
            const std::size_t quote = std::min(end_of_quoted(json, at + 1), json.size() - 1);
            out.append(json, at, quote + 1 - at);
            at = quote + 1;
        } else if (at < json.size()) {
            ++at;
        }
    }
}

}  // namespace rtrain::storage
