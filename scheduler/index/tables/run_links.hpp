// The runs that wait for other runs, the running runs that other runs may shrink or let grow, and helpers of owners.
// Invariant: an entry exists while its run is not terminal.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/model/ids.hpp"

namespace rtrain {

struct LinksOfRun {            // the run's entries, stored as they were added
    std::vector<RunId> after;  // the runs whose end the run waits for
    std::string array{};       // see array_key(); empty unless the run waits for a place in its job array
    bool is_elastic = false;   // the run is running, and its number of workers may change
    RunId owner{};             // the run with which this run ends; 0: none
    bool is_yielding = false;
};

// Returns a key of a job array that is unique among all users.
std::string array_key(const std::string& array, const std::string& user);

class RunLinks {
  public:
    void add(RunId id, const LinksOfRun& links);
    void remove(RunId id, const LinksOfRun& links);
    std::vector<RunId> dependents(RunId run) const;
    std::optional<RunId> next_of_array(const std::string& key) const;
    const std::set<RunId>& elastic() const { return elastic_; }
    std::vector<RunId> helpers(RunId owner) const;
    const std::set<RunId>& yielding() const { return yielding_; }
    bool has_equal_waits(const RunLinks& other) const {
        return dependents_ == other.dependents_ && array_waiting_ == other.array_waiting_;
    }
    bool has_equal_helpers(const RunLinks& other) const {
        return helpers_ == other.helpers_ && yielding_ == other.yielding_;
    }

  private:
    std::set<std::pair<RunId, RunId>> dependents_;           // pairs of a run and a run that waits for it
    std::set<std::pair<std::string, RunId>> array_waiting_;  // pairs of an array's key and a run
    std::set<std::pair<RunId, RunId>> helpers_;              // pairs of a run and a run that ends with it
    std::set<RunId> elastic_, yielding_;
};

}  // namespace rtrain
