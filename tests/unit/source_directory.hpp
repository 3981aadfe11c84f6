// The place of the repository, for tests that read its files.
#pragma once

#include <string>

namespace rtrain::test {

// Returns the absolute path of the repository, without a slash at its end.
std::string source_directory();

}  // namespace rtrain::test
