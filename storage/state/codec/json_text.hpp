// Strings and numbers as JSON, exact in both directions. A string may hold any bytes, since a worker's last output need
// not be UTF-8. A byte that is not part of valid UTF-8 is written as the code point U+10FF00 + byte of the private
// plane. Bytes that already spell such a code point are written in the same way.
#pragma once

#include <string>
#include <string_view>

namespace rtrain::state {

void append_string(std::string& out, std::string_view bytes);  // appends the bytes as a JSON string, with quotes
// Appends a number. A value that is not finite is written as its bits: "0x7ff8000000000000".
void append_double(std::string& out, double value);
std::string bytes_of(std::string_view decoded);  // Replaces the private code points by their bytes.
double double_of_bits(std::string_view text);    // throws std::invalid_argument if the text is no such number
// Appends a number. A value beyond 64 bits is written as its digits in quotes.
void append_wide(std::string& out, __int128 value);
__int128 wide_of_digits(std::string_view text);  // throws std::invalid_argument if the text is no such number

}  // namespace rtrain::state
