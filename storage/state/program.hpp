// The program that made the decisions of the events, for replays: its version, and the hash of the sources that decide.
#pragma once

#include <string>

namespace rtrain::state {

const std::string& program();  // "0.1.0+1f0c9be2a7d3"

}  // namespace rtrain::state
