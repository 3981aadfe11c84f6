#include "runtime/worker/rank/report_rounds.hpp"

#include "runtime/worker/frames/stop.hpp"

namespace rtrain::worker {

const std::string& ReportRounds::begin(const Report& report, Clock::time_point now) {
    begun_ = now;
    under_way_ = Report{.index = report.index, .checkpoint = report.checkpoint, .upload = report.upload};
    under_way_->checkpoint_error = report.checkpoint_error;
    return kept_.add(report);
}

void ReportRounds::passed(const Report& report) {
    returned_ = report.index;
    brings_files_ = brings_files_ || report.checkpoint.has_value();
}

std::int64_t ReportRounds::interval_ms() const {
    if (returned_ == 0) return -1;
    return std::chrono::duration_cast<std::chrono::milliseconds>(begun_ - ended_).count();
}

void ReportRounds::check_stop(const Report& report) {
    if (stop_after_ == 0 && !stop_.empty() && reached_stop(stop_, report.metrics_json)) stop_after_ = report.index;
}

}  // namespace rtrain::worker
