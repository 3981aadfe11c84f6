// Words of command lines that people paste into a shell, or that a script holds.
#pragma once

#include <string>

namespace rtrain::cmd {

std::string shell_quoted(const std::string& word);  // 'it'\''s': one word for a shell, whatever it holds
std::string shell_word(const std::string& word);    // the same; without quotes where a shell takes it as it is

}  // namespace rtrain::cmd
