// The agent's own log: lines with a time on stderr.
#pragma once

#include <string>

namespace rtrain::agent {

void log_info(const std::string& text);
void warn(const std::string& text);

}  // namespace rtrain::agent
