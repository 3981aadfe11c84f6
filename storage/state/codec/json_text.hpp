// The smallest words of the encoding: strings and numbers as JSON, exact in both directions. A string may hold any
// bytes (a worker's last words need not be UTF-8): a byte that is not part of valid UTF-8 is written as the code point
// U+10FF00 + byte of the private plane, and bytes that spell those code points are written the same way.
#pragma once

#include <string>
#include <string_view>

namespace rtrain::state {

void append_string(std::string& out, std::string_view bytes);  // quoted
void append_double(std::string& out, double value);            // not finite: its bits, "0x7ff8000000000000"
std::string bytes_of(std::string_view decoded);                // undoes the private code points
double double_of_bits(std::string_view text);                  // throws std::invalid_argument
void append_wide(std::string& out, __int128 value);            // beyond 64 bits: its digits, quoted
__int128 wide_of_digits(std::string_view text);                // throws std::invalid_argument

}  // namespace rtrain::state
