// Quotes words for command lines that people paste into a shell, or that a script contains.
#pragma once

#include <string>

namespace rtrain::cmd {

std::string shell_quoted(const std::string& word);  // quotes the text so that a shell reads it as one word: 'it'\''s'
// quotes the text like shell_quoted, but only if a shell needs the quotes
std::string shell_word(const std::string& word);

}  // namespace rtrain::cmd
