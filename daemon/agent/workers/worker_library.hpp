// Where the library lies that C and C++ workers load: librtrain_worker.so.
#pragma once

#include <string>

namespace rtrain::agent {

// Returns the library's path without links; empty: there is none. It is looked for beside the program, as it is built;
// where a package of the system puts it, in ../lib or ../lib64; where pip puts it, for the newest Python below
// ../lib, then below ../lib64.
std::string find_worker_library(const std::string& program);

}  // namespace rtrain::agent
