// The text that Prometheus reads, format 0.0.4.
#pragma once

#include <string>
#include <vector>

#include "daemon/metrics/families.hpp"

namespace rtrain::metrics {

// Collects and writes one part after the other. A family may be in one part only.
std::string exposition_text(const std::vector<Part>& parts);

}  // namespace rtrain::metrics
