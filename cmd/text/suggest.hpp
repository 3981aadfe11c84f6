// "did you mean": the nearest known word, if one is near enough to be a slip of the fingers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtrain::cmd {

std::string nearest(std::string_view word, const std::vector<std::string>& known);  // empty: nothing is near
std::size_t edit_distance(std::string_view a, std::string_view b);                  // swaps of neighbours count as one

}  // namespace rtrain::cmd
