// A run's directory that is being removed: it first gets another name beside its place, `.rtrain-tmp-removed-...`, and
// only then goes. A run that takes the name meanwhile loses nothing. Everything is reached from the descriptor of the
// directory above it: no link is followed, and an exchange of names leads nowhere.
#pragma once

#include <string>

#include "scheduler/model/result.hpp"
#include "storage/base/descriptor.hpp"

namespace rtrain::storage {

// Renames the directory `name` of `parent` and returns its new name; empty: nothing is there. `held` is that directory,
// opened before it was decided that it goes: when another one has its name by now, that one is put back (conflict).
Result<std::string> set_aside(const Descriptor& parent, const std::string& name, const Descriptor& held);
void put_back(const Descriptor& parent, const std::string& aside, const std::string& name);  // unless `name` is taken
// Removes what was set aside of `name`, by removals before that were cut off as well. False: there was nothing.
Result<bool> remove_aside(const Descriptor& parent, const std::string& name);
Result<bool> sweep_aside(const std::string& parent);  // the same of every directory there

// Do two storage paths mean one place, whichever way they are written?
bool same_place(const std::string& path, const std::string& other);

}  // namespace rtrain::storage
