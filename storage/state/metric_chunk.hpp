// Many reports as one compressed piece of bytes: numbers as differences to the row before, JSON as it came.
#pragma once

#include <string>
#include <vector>

#include "storage/state/journal.hpp"

namespace rtrain::state {

std::string pack_metrics(const std::vector<MetricRow>& rows);
Result<std::vector<MetricRow>> unpack_metrics(RunId run, const std::string& bytes);

}  // namespace rtrain::state
