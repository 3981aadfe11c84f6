// "did you mean": the nearest known word, if a typing error can explain the difference.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtrain::cmd {

std::string nearest(std::string_view word, const std::vector<std::string>& known);  // empty: no word is near
std::size_t edit_distance(std::string_view a, std::string_view b);  // a swap of neighbours counts as one

}  // namespace rtrain::cmd
