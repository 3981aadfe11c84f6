// Writes JSON values as block YAML 1.2. A string is unquoted only if no YAML version could read it as another value.
#include <nlohmann/json.hpp>

#include "cmd/text/output.hpp"

namespace rtrain::cmd {
namespace {

using nlohmann::json;

bool bare(const std::string& text) {
    if (text.empty() || text.size() > 200) return false;
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    if (!letter(text[0])) return false;
    for (const char c : text)
        if (!letter(c) && !digit(c) && c != '_' && c != '-' && c != '.' && c != '/') return false;
    std::string lower = text;
    for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    for (const char* word : {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"})
        if (lower == word) return false;
    return true;
}

std::string scalar(const json& value) {
    if (value.is_string() && bare(value.get<std::string>())) return value.get<std::string>();
    return terminal_json(value, -1);
}

void write(const json& value, std::size_t depth, std::string& out);

void write_inner(const json& value, std::size_t depth, std::string& out) {
    if (value.is_structured() && !value.empty()) {
        out += "\n";
        write(value, depth, out);
        return;
    }
    out += " " + scalar(value) + "\n";
}

void write(const json& value, std::size_t depth, std::string& out) {
    const std::string indent(depth * 2, ' ');
    if (value.is_object() && !value.empty()) {
        for (const auto& [key, inner] : value.items()) {
            out += indent + (bare(key) ? key : terminal_json(json(key), -1)) + ":";
            write_inner(inner, depth + 1, out);
        }
        return;
    }
    if (value.is_array() && !value.empty()) {
        for (const json& inner : value) {
            out += indent + "-";
            write_inner(inner, depth + 1, out);
        }
        return;
    }
    out += indent + scalar(value) + "\n";
}

}  // namespace

std::string yaml_text(const json& value) {
    std::string out;
    write(value, 0, out);
    return out;
}

}  // namespace rtrain::cmd
