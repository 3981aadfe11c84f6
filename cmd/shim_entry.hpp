// The hidden verb that a worker's parent is: no table, no settings, no output of ours.
#pragma once

#include "cmd/invocation.hpp"

namespace rtrain::cmd {

Result<int> shim_entry(Invocation& call);

}  // namespace rtrain::cmd
