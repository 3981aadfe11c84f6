// Removes a run's directory. It is first renamed to `.rtrain-tmp-removed-...` beside its place and then removed, so
// that a run that takes the name meanwhile loses nothing. Everything is opened relative to the descriptor of the parent
// directory: no link is followed, and a rename at the same moment has no effect.
#pragma once

#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace rtrain::storage {

// Renames the directory `name` of `parent` and returns its new name; empty if it does not exist. `held` is that
// directory, opened before the decision to remove it. If another directory has the name by now, that one is put back
// (conflict).
Result<std::string> set_aside(const Descriptor& parent, const std::string& name, const Descriptor& held);
// renames the directory back, unless `name` is taken
void put_back(const Descriptor& parent, const std::string& aside, const std::string& name);
// Removes what set_aside() has renamed from `name`, also in earlier removals that were interrupted. Returns false if
// there was nothing.
Result<bool> remove_aside(const Descriptor& parent, const std::string& name);
Result<bool> sweep_aside(const std::string& parent);  // calls remove_aside for each directory of `parent`

// Returns true if two storage paths, however they are written, are the same place.
bool same_place(const std::string& path, const std::string& other);

}  // namespace rtrain::storage
