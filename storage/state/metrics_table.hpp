// The metrics of reports. The newest rows of a run are stored unchanged in `metrics`. A thousand of them, or fewer that
// take megabytes, are sealed into one compressed row of `metric_chunks`, so that a million reports cost some tens of
// megabytes. Beyond four million reports of a run the oldest chunks are thinned: two of them become one that keeps
// every second row.
#pragma once

#include "storage/state/journal.hpp"
#include "storage/state/sqlite.hpp"

namespace rtrain::state {

struct MetricMark {  // facts about a run's rows, so that a commit need not read them
    std::uint64_t position = 0;
    std::int64_t unsealed = 0, chunks = 0;
    // `bytes`: bytes of all rows; sealed rows count with their compressed size
    std::int64_t unsealed_bytes = 0, bytes = 0;
    // the highest report index of each attempt; key: the attempt's number
    std::map<std::uint32_t, std::uint64_t> newest;
};
// key: the run; contains only runs that were written to since the journal was opened
using MetricMarks = std::map<RunId, MetricMark>;

// Requires an open transaction. `marks` and `grown` are valid only if it is committed. `grown` receives the growth of
// each run's rows in bytes, negative if rows were sealed.
Status add_metrics(Database& database, MetricMarks& marks, const std::vector<MetricRow>& rows,
                   std::map<RunId, std::int64_t>& grown);
Result<std::map<RunId, std::int64_t>> metric_bytes(Database& database);  // Returns the bytes of all rows by run.
Result<PageOf<MetricRow>> read_metrics(Database& database, RunId run, std::uint64_t after_position, PageBounds most);
// position of the run's last row; 0 if it has none
Result<std::int64_t> last_metric_position(Database& database, RunId run);
Result<std::optional<MetricRow>> last_metric(Database& database, RunId run);
Status erase_metrics(Database& database, RunId run);

}  // namespace rtrain::state
