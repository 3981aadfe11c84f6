// Who gives way to whom. Inside of the core only.
#pragma once

#include "scheduler/shares.hpp"

namespace rtrain::core {

class Change;

// Asks others to give way until the waiting run fits, if together they can make it fit and it may take from them. True:
// some were asked now.
bool make_room(Change& change, const Quotas& quotas, RunId waiting);
Resources held_by(const Cluster& cluster, const Attempt& attempt);

}  // namespace rtrain::core
