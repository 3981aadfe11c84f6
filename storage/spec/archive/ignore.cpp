// .gitignore rules: comments, !, trailing /, ** and patterns that are bound to their directory by a slash.

#include "storage/spec/archive/ignore.hpp"

#include <array>
#include <cctype>
#include <sstream>

namespace rtrain::spec {
namespace {

std::vector<std::string> split(std::string_view text) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find('/', begin), text.size());
        parts.emplace_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

struct Class {
    std::string_view name;
    int (*holds)(int);
};
constexpr std::array<Class, 12> classes = {{{"[:alnum:]", std::isalnum},
                                            {"[:alpha:]", std::isalpha},
                                            {"[:blank:]", std::isblank},
                                            {"[:cntrl:]", std::iscntrl},
                                            {"[:digit:]", std::isdigit},
                                            {"[:graph:]", std::isgraph},
                                            {"[:lower:]", std::islower},
                                            {"[:print:]", std::isprint},
                                            {"[:punct:]", std::ispunct},
                                            {"[:space:]", std::isspace},
                                            {"[:upper:]", std::isupper},
                                            {"[:xdigit:]", std::isxdigit}}};

const Class* class_at(std::string_view pattern) {
    for (const Class& one : classes)
        if (pattern.starts_with(one.name)) return &one;
    return nullptr;
}

// Reads [...] at the pattern's start. Returns how long it is (0: it has no end) and whether it holds the character.
struct Set {
    std::size_t length = 0;
    bool holds = false;
};
Set read_set(std::string_view pattern, char c) {
    std::size_t at = 1;
    const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
    if (negated) ++at;
    bool holds = false;
    for (bool first = true; at < pattern.size() && (first || pattern[at] != ']'); first = false) {
        if (const Class* known = class_at(pattern.substr(at)); known != nullptr) {
            holds = holds || known->holds(static_cast<unsigned char>(c)) != 0;
            at += known->name.size();
            continue;
        }
        if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
        const char low = pattern[at];
        char high = low;
        if (at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']') {
            high = pattern[at + 2];
            at += 2;
        }
        holds = holds || (low <= c && c <= high);
        ++at;
    }
    if (at >= pattern.size()) return {};
    return {.length = at + 1, .holds = holds != negated};
}

// How much of the pattern stands for exactly this character; 0: it does not. As with git, a set without an end and a
// backslash at the end stand for none.
std::size_t one_character(std::string_view pattern, char c) {
    if (pattern.empty()) return 0;
    if (pattern[0] == '?') return 1;
    if (pattern[0] == '\\') return pattern.size() > 1 && pattern[1] == c ? 2 : 0;
    if (pattern[0] == '[') {
        const Set set = read_set(pattern, c);
        return set.holds ? set.length : 0;
    }
    return pattern[0] == c ? 1 : 0;
}

// Row by row: no pattern makes this slow.
bool parts_match(const std::vector<std::string>& pattern, const std::vector<std::string>& path) {
    std::vector<bool> reached(path.size() + 1, false);
    reached[0] = true;
    for (std::size_t p = 0; p < pattern.size(); ++p) {
        std::vector<bool> next(path.size() + 1, false);
        for (std::size_t i = 0; i <= path.size(); ++i) {
            if (!reached[i]) continue;
            if (pattern[p] == "**") {
                // In the end it stands for what is inside of a directory, so for at least one part.
                for (std::size_t j = i + (p + 1 == pattern.size() ? 1 : 0); j <= path.size(); ++j) next[j] = true;
            } else if (i < path.size() && glob_matches(pattern[p], path[i])) {
                next[i + 1] = true;
            }
        }
        reached = std::move(next);
    }
    return reached[path.size()];
}

std::string without_end(std::string line) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    while (!line.empty() && line.back() == ' ' && !(line.size() > 1 && line[line.size() - 2] == '\\')) line.pop_back();
    return line;
}

}  // namespace

bool glob_matches(std::string_view pattern, std::string_view name) {
    std::size_t p = 0, n = 0, star = std::string_view::npos, star_name = 0;
    while (n < name.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            star_name = n;
        } else if (const std::size_t used = one_character(pattern.substr(p), name[n]); used != 0) {
            p += used;
            ++n;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            n = ++star_name;
        } else {
            return false;
        }
    }
    while (p < pattern.size() && pattern[p] == '*') ++p;
    return p == pattern.size();
}

void IgnoreRules::add(std::vector<Rule>& rules, const std::string& base, const std::string& text) {
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    std::istringstream lines(text.starts_with(byte_order_mark) ? text.substr(byte_order_mark.size()) : text);
    for (std::string line; std::getline(lines, line);) {
        line = without_end(line);
        if (line.empty() || line[0] == '#') continue;
        Rule rule{.base = base};
        if (line[0] == '!') {
            rule.keep = true;
            line.erase(0, 1);
        }
        if (!line.empty() && line.back() == '/') {
            rule.directories_only = true;
            line.pop_back();
        }
        if (line.empty()) continue;
        const bool bound = line.find('/') != std::string::npos;
        if (line[0] == '/') line.erase(0, 1);
        if (!bound) rule.parts.emplace_back("**");
        for (std::string& part : split(line)) rule.parts.push_back(std::move(part));
        rules.push_back(std::move(rule));
    }
}

bool IgnoreRules::hits(const Rule& rule, const std::string& path, FileKind kind) {
    if (rule.directories_only && kind != FileKind::directory) return false;
    std::string_view below = path;
    if (!rule.base.empty()) {
        if (!path.starts_with(rule.base + "/")) return false;
        below.remove_prefix(rule.base.size() + 1);
    }
    return parts_match(rule.parts, split(below));
}

bool IgnoreRules::ignored(const std::string& path, FileKind kind) const {
    for (const std::vector<Rule>* rules : {&rtrain_, &git_})
        for (auto rule = rules->rbegin(); rule != rules->rend(); ++rule)
            if (hits(*rule, path, kind)) return !rule->keep;
    return false;
}

}  // namespace rtrain::spec
