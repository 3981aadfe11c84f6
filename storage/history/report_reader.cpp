// See report_reader.hpp.
#include "storage/history/report_reader.hpp"

#include "storage/state/metrics_table.hpp"
#include "storage/state/schema.hpp"

namespace rtrain::history {

using state::Database;
using state::Transaction;

ReportReader::ReportReader(Database database) : database_(std::make_unique<Database>(std::move(database))) {}
ReportReader::ReportReader(ReportReader&&) noexcept = default;
ReportReader::~ReportReader() = default;

Result<ReportReader> ReportReader::open(const std::string& directory) {
    auto database = Database::open(directory + "/" + state::database_name, Database::Mode::existing);
    if (!database) return database.error();
    return ReportReader(std::move(*database));
}

Result<state::PageOf<state::MetricRow>> ReportReader::rows(RunId run, std::uint64_t after_position, std::size_t limit) {
    // rows can move into chunks while the pages are read
    auto one_view = Transaction::begin(*database_, Transaction::Kind::read);
    if (!one_view) return one_view.error();
    return state::read_metrics(*database_, run, after_position, {.rows = limit});
}

Result<std::uint64_t> ReportReader::last_position(RunId run) {
    const auto position = state::last_metric_position(*database_, run);
    if (!position) return position.error();
    return static_cast<std::uint64_t>(*position);
}

}  // namespace rtrain::history
