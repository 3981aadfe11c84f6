// Directories of the agent's that other users pass through, read or write. The names around them are the agent's alone:
// only what is given here is a user's, and nobody else can look into it.
#pragma once

#include <string>

#include "daemon/agent/launcher.hpp"
#include "daemon/agent/node_files.hpp"

namespace rtrain::agent {

// Before anything is read there: what root's agent finds in its directory it believes, so nobody else may write to it.
Status check_data_directory(const std::string& path);

// At the start and each day: code is for the agent alone, and what earlier agents made readable to all is closed. While
// workers of such an agent run, which compare their files with the code's, those who know its hash still reach it.
void keep_apart(const NodeFiles& files);

// The directory `path`, which is the agent's own and for nobody else. One that was given to a user goes out of the way.
Status own_directory(const std::string& path);
// From then on the user may read what is below `path`, and nobody else.
Status lend_directory(const std::string& path, const WorkerUser& user);

// TMPDIR of an attempt: the user's (0700). `above` may be a directory that every user can write to, such as /tmp, so a
// name that somebody else has taken is refused.
Status make_scratch(const std::string& above, const std::string& path, const WorkerUser& user);

}  // namespace rtrain::agent
