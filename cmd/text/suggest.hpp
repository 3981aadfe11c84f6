// Finds the word for "did you mean": the nearest known word, if a typing error can explain the difference.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtrain::cmd {

// the nearest word; empty: no word is near
std::string nearest(std::string_view word, const std::vector<std::string>& known);
// number of edits; a swap of two neighbours counts as one
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace rtrain::cmd
