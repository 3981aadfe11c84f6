// Checks a file before it is parsed: its size, its encoding, and characters that YAML does not allow.
#include "base/hex.hpp"
#include "storage/job_spec/pattern.hpp"
#include "storage/job_spec/value.hpp"

namespace rtrain::spec {
namespace {

// Returns true if `second` may follow `first` in a character of three or four bytes (RFC 3629, section 4): the
// character is no overlong form, no surrogate, and not beyond U+10FFFF.
bool is_second_byte(unsigned first, unsigned second) {
    const unsigned least = first == 0xE0 ? 0xA0U : first == 0xF0 ? 0x90U : 0x80U;
    const unsigned most = first == 0xED ? 0x9FU : first == 0xF4 ? 0x8FU : 0xBFU;
    return first >= 0xE0 && first <= 0xF4 && second >= least && second <= most;
}

// Returns the number of bytes of the UTF-8 character that begins at `at`; 0 if the bytes there are not valid UTF-8.
std::size_t character_bytes(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    const unsigned first = byte(at);
    const auto tail = [&](std::size_t i) { return (byte(at + i) & 0xC0U) == 0x80U; };
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first <= 0xDF) return tail(1) ? 2 : 0;
    if (!is_second_byte(first, byte(at + 1)) || !tail(2)) return 0;
    if (first <= 0xEF) return 3;
    return tail(3) ? 4 : 0;
}

std::string byte_text(char c) { return "0x" + storage::hex({&c, 1}); }

Problems character_problems(const std::string& text) {
    Problems problems;
    Place place{1, 1};
    for (std::size_t at = 0; at < text.size() && problems.size() < 20;) {
        const std::size_t bytes = character_bytes(text, at);
        const auto c = static_cast<unsigned char>(text[at]);
        if (bytes == 0)
            problems.push_back({"", place.line, place.column, "byte " + byte_text(text[at]) + " is not UTF-8",
                                "save the file as UTF-8"});
        else if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
            problems.push_back(
                {"", place.line, place.column, "control character " + byte_text(text[at]) + " is not allowed", ""});
        if (text[at] == '\n')
            place = {place.line + 1, 1};
        else
            ++place.column;
        at += bytes == 0 ? 1 : bytes;
    }
    return problems;
}

// Returns whether this line begins a literal or folded block, whose body may contain tabs.
bool opens_block(const std::string& line) {
    return line.size() < pattern_text_most && has_pattern(line, R"((^|[:\-?] +|: *)[|>][-+0-9]*[ \t]*(#.*)?\r?$)");
}

Problems line_problems(const std::string& text) {
    Problems problems;
    int number = 0;
    // indentation of the line that opened the current block; npos: no block
    std::size_t block_indent = std::string::npos;
    for (std::size_t begin = 0; begin < text.size() && problems.size() < 20;) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        const std::string line = text.substr(begin, end - begin);
        begin = end + 1;
        ++number;
        const std::size_t spaces = std::min(line.find_first_not_of(' '), line.size());
        const std::size_t content = line.find_first_not_of(" \t\r");
        if (content == std::string::npos) continue;
        if (block_indent != std::string::npos && spaces > block_indent) continue;
        block_indent = std::string::npos;
        if (line[spaces] == '\t')
            problems.push_back({"", number, static_cast<int>(spaces) + 1, "a tab indents this line; YAML wants spaces",
                                "replace it by spaces"});
        if (line[0] == '%')
            problems.push_back(
                {"", number, 1, "YAML directives are not allowed", "remove the line: the file is read as YAML 1.2"});
        if (line[content] != '#' && opens_block(line)) block_indent = spaces;
    }
    return problems;
}

}  // namespace

bool is_text(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t bytes = character_bytes(text, at);
        if (bytes == 0 || text[at] == '\0') return false;
        at += bytes;
    }
    return true;
}

Problems text_problems(const std::string& text) {
    if (text.size() > file_bytes_most)
        return {{"", 0, 0,
                 "the file has " + std::to_string(text.size()) + " bytes; a spec has at most " +
                     std::to_string(file_bytes_most),
                 "data belongs into working_dir or onto the storage path"}};
    Problems problems = character_problems(text);
    if (problems.empty()) problems = line_problems(text);
    return problems;
}

}  // namespace rtrain::spec
