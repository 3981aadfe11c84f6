// Checks of a machine before a unit is written for it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "cmd/daemons/machine_root.hpp"

namespace rtrain::cmd {

// An account that exists on this machine.
struct Account {
    std::string name;
    uid_t uid = 0;
    gid_t gid = 0;
};
// Whether `name` can be an account's at all: a unit's line takes it as it is (usage).
Status check_account_name(const std::string& name);
Result<Account> find_account(const std::string& name);

// Fails if the path is below /tmp or /var/tmp: a unit of the system has directories of its own in place of these.
Status check_outside_tmp(const std::string& path);
// Fails unless directories that are open to all lead to the file. `needed`: permission bits for others, on the file
// itself.
Status check_reachable(const MachineRoot& root, const std::string& file, mode_t needed);
// The account may do this: R_OK, W_OK, X_OK. A process of that account tries. Needs root.
Status check_access(const Account& account, const std::string& path, int mode, const std::string& next);

// Fails unless root, or `also`, owns what a service of root starts. `also` is who writes an image, where he is not
// root.
Status check_roots_own(const MachineRoot& root, const std::string& program, uid_t also);

// Makes a directory of the account, unless it is there; then the account must be able to write it. No link is followed
// where one is made. Needs root.
Status provide_directory(const MachineRoot& root, const std::string& path, const Account& account);

// The names of those variables that the file of variables sets; a file that is not there sets none.
std::vector<std::string> set_in(const MachineRoot& root, const std::string& file,
                                const std::vector<std::string>& names);

// The path of the service's environment, where the program was installed into one of Python's: its directory first,
// then the manager's default. Empty: there is no python3 beside the program, or it is found anyway.
std::string python_path(const MachineRoot& root, const std::string& program);

}  // namespace rtrain::cmd
