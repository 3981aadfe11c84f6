// The metrics of reports. The newest rows of a run lie as they came in `metrics`; a thousand of them, or
// fewer that take megabytes, are sealed into one compressed row of `metric_chunks`, so that a million reports cost some
// tens of megabytes. Beyond four million
// reports of a run the oldest chunks are thinned: two of them become one that keeps every second row.
#pragma once

#include "storage/state/journal.hpp"
#include "storage/state/sqlite.hpp"

namespace rtrain::state {

struct MetricMark {  // what is known of a run's rows without reading them
    std::uint64_t position = 0;
    std::int64_t unsealed = 0, chunks = 0;
    std::int64_t unsealed_bytes = 0, bytes = 0;     // bytes: of all rows, sealed ones as they are stored
    std::map<std::uint32_t, std::uint64_t> newest;  // by attempt: the highest index
};
using MetricMarks = std::map<RunId, MetricMark>;  // runs that were written to since the opening

// Inside of the caller's transaction; `marks` and `grown` count only when that is committed. `grown`: by how many bytes
// the rows of each run became more, or fewer where some were sealed.
Status add_metrics(Database& database, MetricMarks& marks, const std::vector<MetricRow>& rows,
                   std::map<RunId, std::int64_t>& grown);
Result<std::map<RunId, std::int64_t>> metric_bytes(Database& database);  // of all rows of each run
Result<PageOf<MetricRow>> read_metrics(Database& database, RunId run, std::uint64_t after_position, PageBounds most);
Result<std::int64_t> last_metric_position(Database& database, RunId run);  // 0: it has none
Result<std::optional<MetricRow>> last_metric(Database& database, RunId run);
Status erase_metrics(Database& database, RunId run);

}  // namespace rtrain::state
