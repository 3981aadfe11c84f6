// The names of live runs, and the submit keys of users.
// Invariant: at most one live run has a name. All runs of a job array have one key.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "scheduler/model/ids.hpp"

namespace rtrain {

struct NamesOfRun {  // the run's entries, stored as they were added
    std::string name, user, submit_key;
    bool is_live = false;
};

class RunNames {
  public:
    void add(RunId id, const NamesOfRun& names);
    void remove(RunId id, const NamesOfRun& names);
    std::optional<RunId> live_run(const std::string& name) const;
    // the run with this submit key; of an array the first run
    std::optional<RunId> submitted(const std::string& user, const std::string& key) const;
    bool operator==(const RunNames&) const = default;

  private:
    std::map<std::string, RunId> live_;
    std::map<std::pair<std::string, std::string>, std::set<RunId>> submitted_;  // key: the user and the submit key
};

}  // namespace rtrain
