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
// Fails with `usage` unless `name` can be the name of an account, because a line of the unit contains it unchanged.
Status check_account_name(const std::string& name);
Result<Account> find_account(const std::string& name);

// Fails if the path is below /tmp or /var/tmp, because a system service sees private directories there.
Status check_outside_tmp(const std::string& path);
// Fails unless all users can enter the directories above the file. `needed`: permission bits that other users must have
// on the file itself.
Status check_reachable(const MachineRoot& root, const std::string& file, mode_t needed);
// Fails unless the account has the access `mode` (R_OK, W_OK, X_OK) to the path. A process with the account's rights
// tries it. Needs root.
Status check_access(const Account& account, const std::string& path, int mode, const std::string& next);

// Fails unless the program, and what it is started with, belongs to root or to `also`. `also`: the user who writes an
// image without being root.
Status check_roots_own(const MachineRoot& root, const std::string& program, uid_t also);

// Makes a directory that belongs to the account, unless it exists. Fails if the account cannot write to it then.
// Follows no link while making one. Needs root.
Status provide_directory(const MachineRoot& root, const std::string& path, const Account& account);

// Returns the names out of the given ones that the file of variables sets. Returns none if the file does not exist.
std::vector<std::string> set_in(const MachineRoot& root, const std::string& file,
                                const std::vector<std::string>& names);

// Returns a PATH for the service, if the program was installed into a Python environment: the environment's directory
// first, then the service manager's default. Returns an empty text if the service needs no PATH: there is no python3
// beside the program, or the default finds it.
std::string python_path(const MachineRoot& root, const std::string& program);

}  // namespace rtrain::cmd
