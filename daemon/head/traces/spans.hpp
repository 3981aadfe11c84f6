// PURE: what the head decides becomes spans of a run's life. Each is made when it ends, from times of the records, so a
// head that was restarted goes on with the same trace: ids are hashes of what a span stands for.
//
//   run ─┬─ submit                                     until the submission is durable
//        ├─ queue        of each attempt               from the submission, or the end of the attempt before
//        └─ attempt ─┬─ prepare                        nodes fetch code, probe the storage, reach each other
//                    ├─ start ──── restore             workers are launched; from which checkpoint, where there is one
//                    └─ first_report
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/head/events/decisions.hpp"
#include "scheduler/index/cluster.hpp"

namespace rtrain::head {

struct Span {
    std::string trace, id, parent;  // hexadecimal digits: 32, 16, and 16 (none: the span has no parent)
    std::string name;
    std::int64_t begin_wall_ms = 0, end_wall_ms = 0;
    std::vector<std::pair<std::string, std::variant<std::string, std::int64_t>>> attributes;
    bool failed = false;
};

class RunSpans {
  public:
    // `to_wall` converts a time of the records to the wall clock. Attempts that began before `since` get no
    // first_report span, since an earlier head may have received the report.
    RunSpans(std::function<std::int64_t(Time)> to_wall, Time since) : to_wall_(std::move(to_wall)), since_(since) {}
    std::vector<Span> decided(const Cluster& cluster, const Decisions& decisions);
    // Returns the spans of submissions. To be called when these decisions are durable; `now` is that time.
    std::vector<Span> durable(const Cluster& cluster, const Decisions& decisions, Time now);
    // records the attempt's first report; the next call of decided() returns its span
    void first_report(const AttemptId& attempt) { reported_.insert(attempt); }

  private:
    std::int64_t wall(Time time);
    void add_run(const Cluster& cluster, const Run& run, std::vector<Span>& out);
    void add_attempt(const Cluster& cluster, const Attempt& attempt, std::vector<Span>& out);
    void add(std::vector<Span>& out, Span span, Time begin, Time end);
    void add_first_reports(const Cluster& cluster, Time now, std::vector<Span>& out);

    std::function<std::int64_t(Time)> to_wall_;
    std::int64_t offset_ms_ = 0;  // difference between the wall clock and the records' clock
    Time since_, now_;
    // ids of the spans that ended at `now_`, because a record that is saved several times at one time must make one
    // span
    std::set<std::string> ids_;
    std::set<AttemptId> reported_;
};

}  // namespace rtrain::head
