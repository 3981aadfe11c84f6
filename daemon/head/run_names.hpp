// Runs by what people and repeated requests call them: name and submission key. Follows from the records, so that no
// request looks at every run.
#pragma once

#include <map>
#include <set>
#include <string>

#include "scheduler/records.hpp"

namespace rtrain::head {

class RunNames {
  public:
    void saw(const Run& run);  // a new one, or one that changed
    void forget(RunId run);
    const std::set<RunId>& named(const std::string& name) const;
    const std::set<RunId>& submitted(const std::string& key) const;  // several: a job array, or keys of several users

  private:
    using Index = std::map<std::string, std::set<RunId>>;
    struct Known {
        Index::iterator name, key;
    };
    static const std::set<RunId>& in(const Index& index, const std::string& text);
    static void leave(Index& index, Index::iterator place, RunId run);
    Index names_, keys_;
    std::map<RunId, Known> known_;
};

}  // namespace rtrain::head
