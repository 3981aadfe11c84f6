// Makes text safe for a terminal. Names and logs come from other users: their control characters are shown, never
// interpreted.
#pragma once

#include <string>
#include <string_view>

namespace rtrain::cmd {

// Escapes, other control characters (C0 but newline and tab, DEL, C1), bidirectional overrides and bytes that are not
// UTF-8 become visible text: "\x1b[31m".
std::string shown(std::string_view text);
std::string shown_line(std::string_view text);  // also escapes newline and tab: for one cell or one line
std::size_t width(std::string_view text);       // approximate columns on the screen: wide letters count two

enum class Colour { none, red, green, yellow, cyan, dim };
std::string painted(std::string_view text, Colour colour);
Colour state_colour(std::string_view state);  // "FAILED" is red ...; always together with the word

bool colour_wanted(std::string_view choice, int descriptor);  // auto: a terminal, no NO_COLOR, TERM is not dumb
bool interactive();  // true: stdin and stderr are terminals, so a question may be asked

}  // namespace rtrain::cmd
