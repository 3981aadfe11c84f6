#include "tests/unit/source_directory.hpp"

namespace rtrain::test {

std::string source_directory() { return RTRAIN_SOURCE_DIR; }

}  // namespace rtrain::test
