#include "cmd/text/line_pattern.hpp"

#include <regex.h>

namespace rtrain::cmd {
namespace {

// Returns what a backslash and this letter mean, outside of brackets or inside of them.
std::string escape(char letter, bool in_brackets) {
    switch (letter) {
        case 'd':
            return in_brackets ? "[:digit:]" : "[[:digit:]]";
        case 'D':
            return in_brackets ? "D" : "[^[:digit:]]";
        case 's':
            return in_brackets ? "[:space:]" : "[[:space:]]";
        case 'w':
            return in_brackets ? "[:alnum:]_" : "[[:alnum:]_]";
        case 't':
            return "\t";
        default:
            return (in_brackets ? "" : "\\") + std::string(1, letter);
    }
}

std::string as_extended(const std::string& text) {
    std::string out;
    // position at which the open bracket's content begins; npos: no bracket is open
    std::size_t bracket_from = std::string::npos;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool in_brackets = bracket_from != std::string::npos;
        if (text[i] == '\\' && i + 1 < text.size()) {
            out += escape(text[++i], in_brackets);
        } else if (in_brackets && text[i] == ']' && i > bracket_from) {
            out += ']';
            bracket_from = std::string::npos;
        } else if (in_brackets && text.compare(i, 2, "[:") == 0 && text.find(":]", i) != std::string::npos) {
            const std::size_t end = text.find(":]", i) + 2;
            out += text.substr(i, end - i);
            i = end - 1;
        } else if (!in_brackets && text[i] == '[') {
            bracket_from = i + (text.compare(i + 1, 1, "^") == 0 ? 2 : 1);
            out += '[';
        } else if (!in_brackets && text.compare(i, 3, "(?:") == 0) {
            out += '(';
            i += 2;
        } else {
            out += text[i];
        }
    }
    return out;
}

}  // namespace

struct LinePattern::Compiled {
    regex_t pattern{};
    bool sound = false;
    Compiled() = default;
    Compiled(const Compiled&) = delete;
    Compiled& operator=(const Compiled&) = delete;
    ~Compiled() {
        if (sound) regfree(&pattern);
    }
};

Result<LinePattern> LinePattern::compile(const std::string& text) {
    auto compiled = std::make_shared<Compiled>();
    const int error = regcomp(&compiled->pattern, as_extended(text).c_str(), REG_EXTENDED | REG_NOSUB);
    compiled->sound = error == 0;
    if (compiled->sound) return LinePattern(std::move(compiled));
    char why[128] = "";
    regerror(error, &compiled->pattern, why, sizeof why);
    return Error{.code = ErrorCode::usage,
                 .message = "--grep: \"" + text + "\" is not a regular expression: " + why,
                 .next = "a backslash before . * + ? [ ( { | ^ $ makes them plain"};
}

bool LinePattern::found_in(const std::string& line) const {
    return regexec(&compiled_->pattern, line.c_str(), 0, nullptr, 0) == 0;
}

}  // namespace rtrain::cmd
