// The reports of a rank in their order: the next number, the report under way, and the frames that the agent has not
// acknowledged. It also finds the report with which rank 0 has reached the job's `stop`.
// Invariant: returned() < next(); a report under way has the number next() - 1. No report that is begun later passes
// without an agent once stop_after() != 0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "runtime/worker/frames/frames.hpp"
#include "runtime/worker/rank/clock.hpp"
#include "runtime/worker/rank/kept_reports.hpp"

namespace rtrain::worker {

class ReportRounds {
  public:
    explicit ReportRounds(Clock::time_point now) : begun_(now), ended_(now) {}

    std::uint64_t next() const { return next_; }
    void count_from(std::uint64_t index) { next_ = std::max(next_, index); }
    // Returns the first report that the agent must receive over the next connection.
    std::uint64_t first_to_send() const { return kept_.empty() ? next_ : kept_.first(); }
    KeptReports& kept() { return kept_; }
    const KeptReports& kept() const { return kept_; }

    // ---- one report: begin, then end; between them passed() if the ranks have passed it
    void number(Report& report) { report.index = next_++; }
    const std::string& begin(const Report& report, Clock::time_point now);  // returns its frame
    void passed(const Report& report);
    void end() { under_way_.reset(); }
    void returned_at(Clock::time_point now) { ended_ = now; }
    const std::optional<Report>& under_way() const { return under_way_; }  // without its metrics
    std::uint64_t returned() const { return returned_; }                   // the last report that passed
    std::uint64_t newest() const { return under_way_ ? under_way_->index : returned_; }
    bool brings_files() const { return brings_files_; }  // true: a report that passed had files of this rank

    // ---- times
    Clock::time_point begun() const { return begun_; }  // start of the present or last report
    Clock::time_point ended() const { return ended_; }  // end of the last report, or start of the session
    std::int64_t interval_ms() const;                   // from the report before to the present one; -1: there is none

    // ---- the job's `stop`
    void stop_at(const std::map<std::string, double>& stop) { stop_ = stop; }
    void check_stop(const Report& report);                    // for rank 0's reports
    std::uint64_t stop_after() const { return stop_after_; }  // the report that has reached it; 0: none

  private:
    std::uint64_t next_ = 1, returned_ = 0;
    KeptReports kept_;
    std::optional<Report> under_way_;
    Clock::time_point begun_, ended_;
    bool brings_files_ = false;
    std::map<std::string, double> stop_;
    std::uint64_t stop_after_ = 0;
};

}  // namespace rtrain::worker
