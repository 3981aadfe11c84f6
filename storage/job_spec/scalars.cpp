// Interprets unquoted scalars as in YAML 1.2 (core schema). Scalars that readers of YAML 1.1 interpret differently must
// be quoted, so that a file means the same everywhere.

#include <array>
#include <charconv>

#include "storage/job_spec/pattern.hpp"
#include "storage/job_spec/value.hpp"

namespace rtrain::spec {
namespace {

constexpr std::array words_of_1_1 = {"y",  "Y",  "yes", "Yes", "YES", "n",   "N",   "no",
                                     "No", "NO", "on",  "On",  "ON",  "off", "Off", "OFF"};

struct Trap {
    const char* pattern;
    const char* why;
};
// The patterns are tried on the whole scalar in this order.
constexpr std::array traps = {
    Trap{R"([-+]?0[0-9_]+)", "is octal in YAML 1.1 and decimal in YAML 1.2"},
    Trap{R"([-+]?0o[0-7]+)", "is octal in YAML 1.2 and text in YAML 1.1"},
    Trap{R"([-+]?0b[01_]+)", "is binary in YAML 1.1 and text in YAML 1.2"},
    Trap{R"([-+]?0x[0-9a-fA-F]*_[0-9a-fA-F_]*)", "is a number in YAML 1.1 and text in YAML 1.2"},
    Trap{R"([-+]?[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?)", "is a number in YAML 1.1 and text in YAML 1.2"},
    Trap{R"([-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)", "is a number to base 60 in YAML 1.1 and text in YAML 1.2"},
    Trap{R"([0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?)", "is a date in YAML 1.1 and text in YAML 1.2"},
    Trap{R"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))", "is not a finite number"},
};

bool matches(const std::string& text, std::string_view pattern) {
    return text.size() <= 64 && is_pattern(text, pattern);
}

// Converts a number of YAML to one of JSON: "+.5" and "5." are valid in YAML only.
std::string json_number(std::string text) {
    if (text.front() == '+') text.erase(0, 1);
    const std::size_t digits = text.front() == '-' ? 1 : 0;
    if (text[digits] == '.') text.insert(digits, "0");
    const auto dot = text.find('.');
    if (dot != std::string::npos && (dot + 1 == text.size() || text[dot + 1] == 'e' || text[dot + 1] == 'E'))
        text.insert(dot + 1, "0");
    return text;
}

Plain hexadecimal(const std::string& text) {
    std::uint64_t value = 0;
    const auto [end, failed] = std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
    if (failed != std::errc{} || end != text.data() + text.size()) return {.trap = "is beyond 64 bits"};
    return {.kind = Kind::number, .json = std::to_string(value)};
}

}  // namespace

Plain plain_scalar(const std::string& text) {
    if (text == "true" || text == "True" || text == "TRUE") return {.kind = Kind::boolean, .json = "true"};
    if (text == "false" || text == "False" || text == "FALSE") return {.kind = Kind::boolean, .json = "false"};
    for (const char* word : words_of_1_1)
        if (text == word) return {.trap = "is a truth value in YAML 1.1 and text in YAML 1.2"};
    if (text.empty() ||
        (std::isdigit(static_cast<unsigned char>(text[0])) == 0 && text[0] != '-' && text[0] != '+' && text[0] != '.'))
        return {};  // Most scalars are words, and are decided here.
    for (const Trap& trap : traps)
        if (matches(text, trap.pattern)) return {.trap = trap.why};
    if (matches(text, R"(0x[0-9a-fA-F]+)")) return hexadecimal(text);
    if (matches(text, R"([-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)"))
        return {.kind = Kind::number, .json = json_number(text)};
    return {};
}

}  // namespace rtrain::spec
