// Directories of the agent's that other users pass through, read or write. The names around them are the agent's alone:
// only what is given here is a user's, and nobody else can look into it.
#pragma once

#include <string>

#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/workers/launcher.hpp"

namespace rtrain::agent {

// Fails where others than the agent may write to its data directory. It is called before anything is read there: what
// root's agent finds in its directory it believes. So nobody else may write to it, or exchange it or a directory above
// it.
Status check_data_directory(const std::string& path);

// Returns why others than root and this process's user could put another file or directory in the place of `path`: they
// own a directory above it, or may write to one where names are not protected (no sticky bit). Empty: they cannot.
std::string exchangeable(const std::string& path);

// Makes the agent's own directory below `--scratch`, which may be one that every user can write to, such as /tmp. An
// Error when somebody else has taken the name.
Status make_scratch_directory(const std::string& path);

// Closes what earlier agents left open; called at the start and each day. Code is for the agent alone, and what earlier
// agents made readable to all is closed. While workers of such an agent run, which compare their files with the code's,
// those who know its hash still reach it.
void keep_apart(const NodeFiles& files);

// The directory `path`, which is the agent's own and for nobody else. One that was given to a user goes out of the way.
Status own_directory(const std::string& path);
// Lets the user read what is below `path`, and nobody else.
Status lend_directory(const std::string& path, const WorkerUser& user);

// TMPDIR of an attempt, in the agent's own directory: the user's (0700).
Status make_scratch(const std::string& path, const WorkerUser& user);

}  // namespace rtrain::agent
