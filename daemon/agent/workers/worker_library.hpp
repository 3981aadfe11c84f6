// Finds the library that C and C++ workers load: librtrain_worker.so.
#pragma once

#include <string>

namespace rtrain::agent {

// Returns the library's path without links; empty if it is not found. Looks beside the program (a build), in ../lib or
// ../lib64 (a system package), and in pip's folder of the newest Python below ../lib, then below ../lib64.
std::string find_worker_library(const std::string& program);

}  // namespace rtrain::agent
