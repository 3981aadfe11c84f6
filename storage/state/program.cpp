// See program.hpp. The build computes the hash (decider.cmake).
#include "storage/state/program.hpp"

#include "decider.hpp"

namespace rtrain::state {

const std::string& program() {
    static const std::string name = RTRAIN_VERSION "+" RTRAIN_DECIDER;
    return name;
}

}  // namespace rtrain::state
