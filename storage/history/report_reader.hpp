// Reads the reports of runs beside the journal, over a separate connection: long reads do not delay readers of
// SqliteJournal. Sees durable data only. Not thread-safe.
#pragma once

#include <memory>
#include <string>

#include "storage/state/journal.hpp"
#include "storage/state/sqlite.hpp"

namespace rtrain::history {

class ReportReader {
  public:
    // `directory`: the data directory of an open journal
    static Result<ReportReader> open(const std::string& directory);
    Result<state::PageOf<state::MetricRow>> rows(RunId run, std::uint64_t after_position, std::size_t limit);
    Result<std::uint64_t> last_position(RunId run);  // position of the run's last report; 0: the run has no report
    ReportReader(ReportReader&&) noexcept;
    ~ReportReader();

  private:
    explicit ReportReader(state::Database database);
    std::unique_ptr<state::Database> database_;
};

}  // namespace rtrain::history
