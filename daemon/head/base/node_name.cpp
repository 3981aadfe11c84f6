// See node_name.hpp.
#include "daemon/head/base/node_name.hpp"

#include <algorithm>

namespace rtrain::head {
namespace {

bool is_letter_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

}  // namespace

bool is_node_name(std::string_view text) {
    constexpr std::size_t length_most = 63;
    const auto allowed = [](char c) { return is_letter_or_digit(c) || c == '.' || c == '_' || c == '-'; };
    return !text.empty() && text.size() <= length_most && is_letter_or_digit(text.front()) &&
           std::all_of(text.begin(), text.end(), allowed);
}

}  // namespace rtrain::head
