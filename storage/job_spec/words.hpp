// Suggestions for mistyped words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rtrain::spec {

// Returns the word of `known` that is nearest to a mistyped word; empty if none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);
std::string did_you_mean(const std::string& word);  // returns "did you mean WORD?"; an empty text for an empty word

}  // namespace rtrain::spec
