// The place of a unit and the program that it starts: on this machine, for one of its accounts, or in an image.
#pragma once

#include <string>

#include "cmd/daemons/machine_root.hpp"
#include "cmd/line/command.hpp"

namespace rtrain::cmd {

struct UnitTarget {
    MachineRoot root;
    std::string directory;  // directory of units, in that root
    std::string program;    // path in that root
    bool of_user = false;
    bool elsewhere = false;  // below --root: of a machine that does not run now
};
// Returns the target that --user and --root name. Its program is this one; in an image, the one at its place there.
Result<UnitTarget> unit_target(const Arguments& arguments);

// Returns true if only root can change the program. For a link, checks the file that it leads to.
Status check_program_of_root(const UnitTarget& target);

}  // namespace rtrain::cmd
