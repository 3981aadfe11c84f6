// A run's directory that is being removed: it first gets another name beside its place, `.rtrain-tmp-removed-...`, and
// only then goes. A run that takes the name meanwhile loses nothing, and no link below it is followed.
#pragma once

#include <string>

#include "scheduler/result.hpp"

namespace rtrain::storage {

// The new name; empty: nothing is there. A link is refused: what it points to is no run's directory.
Result<std::string> set_aside(const std::string& directory);
void put_back(const std::string& aside, const std::string& directory);  // unless its place is taken by now
// Removes what was set aside of `directory`, by removals before that were cut off as well. False: there was nothing.
Result<bool> remove_aside(const std::string& directory);
Result<bool> sweep_aside(const std::string& parent);  // the same of every directory there

// Do two storage paths mean one place, whichever way they are written?
bool same_place(const std::string& one, const std::string& other);

}  // namespace rtrain::storage
