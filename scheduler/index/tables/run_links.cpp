#include "scheduler/index/tables/run_links.hpp"

namespace rtrain {

std::string array_key(const std::string& array, const std::string& user) {
    return std::to_string(user.size()) + ":" + user + array;
}

void RunLinks::add(RunId id, const LinksOfRun& links) {
    for (const RunId before : links.after) dependents_.insert({before, id});
    if (!links.array.empty()) array_waiting_.insert({links.array, id});
    if (links.is_elastic) elastic_.insert(id);
    if (links.owner.value != 0) helpers_.insert({links.owner, id});
    if (links.is_yielding) yielding_.insert(id);
}

void RunLinks::remove(RunId id, const LinksOfRun& links) {
    for (const RunId before : links.after) dependents_.erase({before, id});
    if (!links.array.empty()) array_waiting_.erase({links.array, id});
    if (links.is_elastic) elastic_.erase(id);
    if (links.owner.value != 0) helpers_.erase({links.owner, id});
    if (links.is_yielding) yielding_.erase(id);
}

namespace {

std::vector<RunId> of(const std::set<std::pair<RunId, RunId>>& pairs, RunId run) {
    std::vector<RunId> ids;
    for (auto at = pairs.lower_bound({run, RunId{}}); at != pairs.end() && at->first == run; ++at)
        ids.push_back(at->second);
    return ids;
}

}  // namespace

std::vector<RunId> RunLinks::dependents(RunId run) const { return of(dependents_, run); }
std::vector<RunId> RunLinks::helpers(RunId owner) const { return of(helpers_, owner); }

std::optional<RunId> RunLinks::next_of_array(const std::string& key) const {
    const auto next = array_waiting_.lower_bound({key, RunId{}});
    return next == array_waiting_.end() || next->first != key ? std::nullopt : std::optional(next->second);
}

}  // namespace rtrain
