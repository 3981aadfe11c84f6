// Directories of the agent that other users pass through, read or write. Only the agent can change the names around
// them. Only the directory given to a user is accessible to that user, and to no other user.
#pragma once

#include <string>

#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/workers/launcher.hpp"

namespace rtrain::agent {

// Fails if other users may write to the agent's data directory, or exchange it or a directory above it. Called before
// anything is read there, since root's agent relies on its contents.
Status check_data_directory(const std::string& path);

// Returns why users other than root and this process's user could exchange `path`: they own a directory above it, or
// may write to one without a sticky bit. Empty if they cannot.
std::string exchangeable(const std::string& path);

// Makes the agent's own directory below `--scratch`, which may be writable for every user, as /tmp is. Fails if another
// user has taken the name.
Status make_scratch_directory(const std::string& path);

// Restricts files that earlier agents left readable for all users; called at the start and each day. Code is accessible
// to the agent alone. While workers of such an agent run, which compare their files with the code, the code stays
// reachable for users with its hash.
void keep_apart(const NodeFiles& files);

// Makes the directory `path` for the agent alone. Moves away an existing one that was given to a user.
Status own_directory(const std::string& path);
// Lets only the user read the tree below `path`.
Status lend_directory(const std::string& path, const WorkerUser& user);

// Makes the TMPDIR of an attempt in the agent's own directory, owned by the user (0700).
Status make_scratch(const std::string& path, const WorkerUser& user);

}  // namespace rtrain::agent
