// Checks a machine before a unit is written for it.
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
// Fails unless `name` can be the name of an account; a unit's line contains it unchanged (usage).
Status check_account_name(const std::string& name);
Result<Account> find_account(const std::string& name);

// Fails if the path is below /tmp or /var/tmp, because a system unit has private directories in their place.
Status check_outside_tmp(const std::string& path);
// Fails unless all users can enter the directories on the way to the file. `needed`: permission bits for others on the
// file itself.
Status check_reachable(const MachineRoot& root, const std::string& file, mode_t needed);
// Fails unless the account has this access (R_OK, W_OK, X_OK); a process of that account tries it. Needs root.
Status check_access(const Account& account, const std::string& path, int mode, const std::string& next);

// Fails unless root, or `also`, owns what a root service starts. `also`: the user who writes an image without being
// root.
Status check_roots_own(const MachineRoot& root, const std::string& program, uid_t also);

// Makes a directory of the account unless it exists; the account must then be able to write to it. Follows no link
// while making one. Needs root.
Status provide_directory(const MachineRoot& root, const std::string& path, const Account& account);

// Returns the names of those variables that the file of variables sets; none if the file does not exist.
std::vector<std::string> set_in(const MachineRoot& root, const std::string& file,
                                const std::vector<std::string>& names);

// Returns the PATH for the service if the program was installed into a Python environment: its directory first, then
// the manager's default. Empty: there is no python3 beside the program, or it is found anyway.
std::string python_path(const MachineRoot& root, const std::string& program);

}  // namespace rtrain::cmd
