// Finds runs by name and by submission key, and counts them by state. The index is computed from the records, so that
// no request needs to look at every run.
#pragma once

#include <map>
#include <set>
#include <string>

#include "scheduler/model/records.hpp"

namespace rtrain::head {

class RunNames {
  public:
    void saw(const Run& run);  // to be called for each new or changed run
    void forget(RunId run);
    const std::set<RunId>& named(const std::string& name) const;
    // Returns the runs with this submission key. They are several for a job array, or if several users use the same
    // key.
    const std::set<RunId>& submitted(const std::string& key) const;

    std::size_t live_runs_of(const std::string& user) const;  // number of the user's runs that have not ended
    const std::map<RunState, std::size_t>& in_states() const { return in_states_; }

  private:
    using Index = std::map<std::string, std::set<RunId>>;
    struct OfUser {
        std::size_t runs = 0, live = 0;  // `live`: number of runs that have not ended
    };
    struct Known {
        Index::iterator name, key;
        std::map<std::string, OfUser>::iterator user;
        RunState state = RunState::queued;
    };
    static const std::set<RunId>& in(const Index& index, const std::string& text);
    static void leave(Index& index, Index::iterator place, RunId run);
    void leave(RunState state);
    Index names_, keys_;
    std::map<RunState, std::size_t> in_states_;  // value: number of runs in the state; never 0
    std::map<std::string, OfUser> of_users_;     // users that have runs
    std::map<RunId, Known> known_;
};

}  // namespace rtrain::head
