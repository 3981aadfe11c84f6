#include "cmd/text/shell_word.hpp"

#include <algorithm>
#include <string_view>

namespace rtrain::cmd {
namespace {

bool is_plain(char c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (c >= '0' && c <= '9') || std::string_view("_./:@%+=,-").find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_quoted(const std::string& word) {
    std::string out = "'";
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

std::string shell_word(const std::string& word) {
    return !word.empty() && std::all_of(word.begin(), word.end(), is_plain) ? word : shell_quoted(word);
}

}  // namespace rtrain::cmd
