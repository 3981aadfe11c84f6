// Quotes words for command lines that people paste into a shell, or that a script contains.
#pragma once

#include <string>

namespace rtrain::cmd {

std::string shell_quoted(const std::string& word);  // returns 'it'\''s': always one word for a shell
std::string shell_word(const std::string& word);    // the same; without quotes if a shell needs none

}  // namespace rtrain::cmd
