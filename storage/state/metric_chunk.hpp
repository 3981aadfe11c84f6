// Many reports as one compressed piece of bytes: numbers as differences to the row before, JSON as it came.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "storage/state/journal.hpp"

namespace rtrain::state {

std::string pack_metrics(const std::vector<MetricRow>& rows);
// Gives the rows one by one, so that no more than one is in memory beside the bytes. Damaged: what was given before
// that shows does not count.
Status unpack_metrics(RunId run, const std::string& bytes, const std::function<void(MetricRow&&)>& take);

}  // namespace rtrain::state
