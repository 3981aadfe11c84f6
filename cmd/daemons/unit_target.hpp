// The place of a unit, and the program that it starts: for this machine, for one of its accounts, or for an image.
#pragma once

#include <string>

#include "cmd/daemons/machine_root.hpp"
#include "cmd/line/command.hpp"

namespace rtrain::cmd {

struct UnitTarget {
    MachineRoot root;
    std::string directory;  // directory of units within that root
    std::string program;    // path of the program within that root
    bool of_user = false;
    bool elsewhere = false;  // true: --root names the image of another machine, which does not run now
};
// Returns the target that --user and --root select. The unit starts this program, or in an image the program at the
// same place.
Result<UnitTarget> unit_target(const Arguments& arguments);

// Fails unless only root can change the program. For a link, checks the file that the link leads to.
Status check_program_of_root(const UnitTarget& target);

}  // namespace rtrain::cmd
