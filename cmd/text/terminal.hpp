// Makes text safe for a terminal. Names and logs come from other users, so their control characters are made visible
// and are never interpreted.
#pragma once

#include <string>
#include <string_view>

namespace rtrain::cmd {

// Returns the text with these made visible, as in "\x1b[31m": escape sequences, other control characters (C0 except
// newline and tab, DEL, C1), bidirectional overrides, and bytes that are not UTF-8.
std::string shown(std::string_view text);
// like shown(), but also escapes newline and tab, for one cell or one line
std::string shown_line(std::string_view text);
std::size_t width(std::string_view text);  // approximate number of columns on the screen; a wide letter counts two

enum class Colour { none, red, green, yellow, cyan, dim };
std::string painted(std::string_view text, Colour colour);
// colour of a run's or node's state: red for "FAILED" and others; callers always print the word too
Colour state_colour(std::string_view state);

// `choice`: always, never or auto; auto: if the descriptor is a terminal, NO_COLOR is not set, and TERM is not dumb
bool colour_wanted(std::string_view choice, int descriptor);
bool interactive();  // true: stdin and stderr are terminals, so a question may be asked

}  // namespace rtrain::cmd
