// One deadline for each id, sorted by time. A deadline is due until the records change.
// Invariant: times_ and of_ hold the same pairs.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/model/ids.hpp"

namespace rtrain {

template <class Id>
class Deadlines {
  public:
    void put(const Id& id, std::optional<Time> time) {  // sets the deadline of the id; nullopt: removes it
        if (const auto before = of_.find(id); before != of_.end()) {
            times_.erase({before->second, id});
            of_.erase(before);
        }
        if (!time) return;
        times_.insert({*time, id});
        of_.emplace(id, *time);
    }
    std::vector<Id> until(Time now) const {
        std::vector<Id> ids;
        for (auto at = times_.begin(); at != times_.end() && at->first <= now; ++at) ids.push_back(at->second);
        return ids;
    }
    std::optional<Time> first() const { return times_.empty() ? std::nullopt : std::optional(times_.begin()->first); }
    bool operator==(const Deadlines&) const = default;

  private:
    std::set<std::pair<Time, Id>> times_;
    std::map<Id, Time> of_;
};

}  // namespace rtrain
