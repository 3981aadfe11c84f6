// The waiting runs by line and shape, by program, and those that need a look: without a wait reason, or with reserved
// nodes.
// Invariant: a run is in one batch, in the set of its program if it has one, and in at most both other sets.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "scheduler/index/tables/waiting.hpp"

namespace rtrain {

struct WaitingRun {
    Line line;
    std::uint32_t shape = 0;
    Waiter waiter;
    Duration length;        // the run's wall_time limit; `for_ever` if it has none
    std::string program{};  // the program that submitted the run; may be empty
    bool is_fresh = false;  // the run has no wait reason yet
    bool is_reserving = false;
};

class WaitingRuns {
  public:
    using Batches = std::map<std::uint32_t, WaitingBatch>;  // key: the number of the shape; no batch is empty
    void add(const WaitingRun& run);
    void remove(const WaitingRun& run);
    const std::map<Line, Batches>& lines() const { return lines_; }
    const Line& stored(const Line& line) const { return lines_.find(line)->first; }
    const std::set<RunId>& fresh() const { return fresh_; }
    const std::set<RunId>& reserving() const { return reserving_; }
    const std::set<Waiter>& of_program(const std::string& program) const;
    bool has_equal_sets(const WaitingRuns& other) const {
        return fresh_ == other.fresh_ && reserving_ == other.reserving_;
    }
    bool has_equal_programs(const WaitingRuns& other) const { return by_program_ == other.by_program_; }

  private:
    std::map<Line, Batches> lines_;
    std::set<RunId> fresh_, reserving_;
    std::map<std::string, std::set<Waiter>> by_program_;
};

}  // namespace rtrain
