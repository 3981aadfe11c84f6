// Reads rules as git does, byte by byte. _ignore.py in runtime/python is the same matcher for drivers.
// tests/ignore_cases.json tests both against git.

#include "storage/job_spec/archive/ignore.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace rtrain::spec {
namespace {

using Bytes = std::bitset<256>;

std::size_t index_of(char c) { return static_cast<unsigned char>(c); }

void add_range(Bytes& bytes, std::size_t low, std::size_t high) {
    for (std::size_t byte = low; byte <= high; ++byte) bytes.set(byte);
}

Bytes bytes_of(std::string_view characters) {
    Bytes bytes;
    for (const char c : characters) bytes.set(index_of(c));
    return bytes;
}

Bytes range_of(char low, char high) {
    Bytes bytes;
    add_range(bytes, index_of(low), index_of(high));
    return bytes;
}

// Returns the bytes of a character class such as "digit", as git defines it: ASCII only, with four kinds of blanks.
// nullopt: there is no such class.
Bytes class_of(std::string_view name) {
    const Bytes digit = range_of('0', '9'), lower = range_of('a', 'z'), upper = range_of('A', 'Z');
    const Bytes alnum = digit | lower | upper, graph = range_of('!', '~');
    struct Class {
        std::string_view name;
        Bytes bytes;
    };
    const std::array<Class, 12> classes = {{{"alnum", alnum},
                                            {"alpha", lower | upper},
                                            {"blank", bytes_of(" \t")},
                                            {"cntrl", range_of('\x01', '\x1f') | bytes_of("\x7f")},
                                            {"digit", digit},
                                            {"graph", graph},
                                            {"lower", lower},
                                            {"print", graph | bytes_of(" ")},
                                            {"punct", graph & ~alnum},
                                            {"space", bytes_of(" \t\n\r")},
                                            {"upper", upper},
                                            {"xdigit", digit | range_of('a', 'f') | range_of('A', 'F')}}};
    for (const Class& known : classes)
        if (known.name == name) return known.bytes;
    return {};
}

const Bytes& not_slash() {
    static const Bytes bytes = ~bytes_of("/");
    return bytes;
}

// Returns the line without the spaces at its end. A space behind a backslash stays.
std::string_view without_blanks(std::string_view line) {
    std::size_t end = 0;
    for (std::size_t at = 0; at < line.size();) {
        const bool blank = line[at] == ' ';
        at += line[at] == '\\' ? 2 : 1;
        if (!blank) end = at;
    }
    return line.substr(0, end);
}

}  // namespace

// Converts a pattern to a sequence of tokens.
struct IgnoreRules::Parser {
    std::string_view pattern;
    bool bound;
    std::size_t at = 0;
    std::vector<Token> tokens;

    bool is(std::size_t place, char c) const { return place < pattern.size() && pattern[place] == c; }

    // Reads a pattern. Returns false if it can match no name.
    bool parse() {
        for (bool plain = true; at < pattern.size();) {  // `plain`: all characters so far stand for themselves
            const char sign = pattern[at];
            if (sign == '*') {
                add_stars(plain);
            } else if (sign == '[') {
                ++at;
                const auto bytes = read_set();
                if (!bytes) return false;
                tokens.push_back({.kind = TokenKind::byte, .fits = *bytes});
            } else if (sign == '?') {
                ++at;
                tokens.push_back({.kind = TokenKind::byte, .fits = not_slash()});
            } else {
                if (sign == '\\') ++at;
                if (at == pattern.size()) return false;
                tokens.push_back({.kind = TokenKind::byte, .fits = bytes_of(pattern.substr(at++, 1))});
            }
            plain = plain && std::string_view("*[?\\").find(sign) == std::string_view::npos;
        }
        return true;
    }

    // Reads two or more stars. They match folders if a slash, or the end, is on both sides. Git removes the plain
    // characters at the begin of a pattern first, so stars behind those match folders too: a**/b matches ax/b.
    void add_stars(bool plain) {
        const std::size_t begin = at;
        while (is(at, '*')) ++at;
        const std::string_view rest = pattern.substr(at);
        const bool after_slash = plain || pattern[begin - 1] == '/';
        const bool before_slash = rest.empty() || rest.starts_with("/") || rest.starts_with("\\/");
        if (!bound || at - begin == 1 || !after_slash || !before_slash) {
            tokens.push_back({.kind = TokenKind::repeat, .fits = not_slash()});
            return;
        }
        const bool folders = rest.starts_with("/");
        if (folders) tokens.push_back({.kind = TokenKind::optional, .fits = {}});
        tokens.push_back({.kind = TokenKind::repeat, .fits = Bytes().set()});
        if (!folders) return;
        tokens.push_back({.kind = TokenKind::byte, .fits = bytes_of("/")});
        ++at;
    }

    // Reads a set whose opening bracket is just before `at`. Returns nullopt if the set has no end, or contains an
    // unknown class.
    std::optional<Bytes> read_set() {
        const bool negated = is(at, '!') || is(at, '^');
        if (negated) ++at;
        Bytes fits;
        std::size_t low = 0;  // the previous character, which may begin a range; 0: there is none
        for (const std::size_t first = at; at == first || !is(at, ']');) {
            if (at >= pattern.size()) return std::nullopt;
            if (pattern.substr(at).starts_with("[:")) {
                const std::size_t end = pattern.find(']', at + 2);
                if (end == std::string_view::npos) return std::nullopt;
                if (end > at + 2 && pattern[end - 1] == ':') {
                    const Bytes known = class_of(pattern.substr(at + 2, end - at - 3));
                    if (known.none()) return std::nullopt;
                    fits |= known;
                    low = 0;
                    at = end + 1;
                    continue;
                }
            }
            const bool range = low != 0 && pattern[at] == '-' && at + 1 < pattern.size() && pattern[at + 1] != ']';
            if (range) ++at;
            if (pattern[at] == '\\') ++at;
            if (at == pattern.size()) return std::nullopt;
            const std::size_t byte = index_of(pattern[at++]);
            add_range(fits, range ? low : byte, byte);
            low = range ? 0 : byte;
        }
        ++at;
        return (negated ? ~fits : fits) & not_slash();
    }
};

// Adds the states that can be reached without reading another byte. State N means that the first N tokens have been
// matched.
void IgnoreRules::skip(const std::vector<Token>& tokens, std::vector<char>& states) {
    for (std::size_t at = 0; at < tokens.size(); ++at) {
        if (states[at] == 0 || tokens[at].kind == TokenKind::byte) continue;
        states[at + 1] = 1;
        if (tokens[at].kind == TokenKind::optional) states[at + 3] = 1;
    }
}

// Advances all states together, so the time is at most proportional to the pattern's length times the name's length.
bool IgnoreRules::matches(const std::vector<Token>& tokens, std::string_view name) {
    std::vector<char> states(tokens.size() + 1, 0), next(tokens.size() + 1, 0);
    states[0] = 1;
    skip(tokens, states);
    for (const char c : name) {
        bool any = false;
        std::fill(next.begin(), next.end(), 0);
        for (std::size_t at = 0; at < tokens.size(); ++at) {
            if (states[at] == 0 || !tokens[at].fits.test(index_of(c))) continue;
            next[at + (tokens[at].kind == TokenKind::byte ? 1 : 0)] = 1;
            any = true;
        }
        if (!any) return false;
        skip(tokens, next);
        states.swap(next);
    }
    return states.back() != 0;
}

void IgnoreRules::add(std::vector<Rule>& rules, const std::string& base, std::string_view text) {
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        add_line(rules, base, text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

void IgnoreRules::add_line(std::vector<Rule>& rules, const std::string& base, std::string_view line) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = without_blanks(line.substr(0, line.find('\0')));
    if (line.starts_with('#')) return;
    const bool keep = line.starts_with('!');
    if (keep) line.remove_prefix(1);
    const bool directories_only = line.ends_with('/');
    if (directories_only) line.remove_suffix(1);
    if (line.empty()) return;
    const bool bound = line.find('/') != std::string_view::npos;
    if (line.starts_with('/')) line.remove_prefix(1);
    Parser parser{.pattern = line, .bound = bound, .tokens = {}};
    if (!parser.parse()) return;
    rules.push_back({.base = base,
                     .tokens = std::move(parser.tokens),
                     .keep = keep,
                     .named = line.find_first_of("*[?\\") == std::string_view::npos,
                     .directories_only = directories_only,
                     .bound = bound});
}

bool IgnoreRules::hits(const Rule& rule, const std::string& path, FileKind kind) {
    if (rule.directories_only && kind != FileKind::directory) return false;
    std::string_view below = path;
    if (!rule.base.empty()) {
        if (!path.starts_with(rule.base + "/")) return false;
        below.remove_prefix(rule.base.size() + 1);
    }
    const std::size_t slash = below.rfind('/');
    if (!rule.bound && slash != std::string_view::npos) below.remove_prefix(slash + 1);
    return matches(rule.tokens, below);
}

bool IgnoreRules::ignored(const std::string& path, FileKind kind) const {
    for (const std::vector<Rule>* rules : {&rtrain_, &git_})
        for (auto rule = rules->rbegin(); rule != rules->rend(); ++rule)
            if (hits(*rule, path, kind)) return !rule->keep || (!rule->named && ignored_at_first(path, kind));
    return ignored_at_first(path, kind);
}

bool IgnoreRules::ignored_at_first(const std::string& path, FileKind kind) const {
    for (auto rule = first_.rbegin(); rule != first_.rend(); ++rule)
        if (hits(*rule, path, kind)) return !rule->keep;
    return false;
}

}  // namespace rtrain::spec
