// Packs many reports into one compressed chunk of bytes. Numbers are stored as differences to the row before. JSON is
// stored unchanged.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "storage/state/journal.hpp"

namespace rtrain::state {

std::string pack_metrics(const std::vector<MetricRow>& rows);
// Passes the rows to `take` one by one, so that only one row is in memory beside the bytes. If it returns `damaged`,
// the caller must drop the rows that were passed before.
Status unpack_metrics(RunId run, const std::string& bytes, const std::function<void(MetricRow&&)>& take);

}  // namespace rtrain::state
