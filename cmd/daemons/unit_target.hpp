// Where a unit goes, and what it starts: on this machine, for an account of it, or in an image.
#pragma once

#include <string>

#include "cmd/daemons/machine_root.hpp"
#include "cmd/line/command.hpp"

namespace rtrain::cmd {

struct UnitTarget {
    MachineRoot root;
    std::string directory;  // of units, in that root
    std::string program;    // as it is called there
    bool of_user = false;
    bool elsewhere = false;  // below --root: of a machine that does not run now
};
// Returns the target that --user and --root name. Its program is this one; in an image it is what the image has in its
// place.
Result<UnitTarget> unit_target(const Arguments& arguments);

// Whether root alone can change the program. It may be a link, and is then as safe as what it leads to.
Status check_program_of_root(const UnitTarget& target);

}  // namespace rtrain::cmd
