// Run directories of earlier versions: an agent of root wrote them as root, and now acts in them as their user.
#pragma once

#include "daemon/agent/preparation.hpp"

namespace rtrain::agent {

// Gives the run's directory, and what root wrote in it, to the user whom its run.json names, if that is who prepares
// it. Nothing is done for a directory that is not root's. A root-owned one is refused when run.json names nobody or
// somebody else, and when it holds what is no part of a run: it may be a directory of the system that a job once named.
Status hand_over_run(const AttemptGear& gear);

}  // namespace rtrain::agent
