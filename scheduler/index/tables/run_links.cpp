#include "scheduler/index/tables/run_links.hpp"

namespace rtrain {

std::string array_key(const std::string& array, const std::string& user) {
    return std::to_string(user.size()) + ":" + user + array;
}

void RunLinks::add(RunId id, const LinksOfRun& links) {
    for (const RunId before : links.after) dependents_.insert({before, id});
    if (!links.array.empty()) array_waiting_.insert({links.array, id});
    if (links.is_elastic) elastic_.insert(id);
}

void RunLinks::remove(RunId id, const LinksOfRun& links) {
    for (const RunId before : links.after) dependents_.erase({before, id});
    if (!links.array.empty()) array_waiting_.erase({links.array, id});
    if (links.is_elastic) elastic_.erase(id);
}

std::vector<RunId> RunLinks::dependents(RunId run) const {
    std::vector<RunId> ids;
    for (auto at = dependents_.lower_bound({run, RunId{}}); at != dependents_.end() && at->first == run; ++at)
        ids.push_back(at->second);
    return ids;
}

std::optional<RunId> RunLinks::next_of_array(const std::string& key) const {
    const auto next = array_waiting_.lower_bound({key, RunId{}});
    return next == array_waiting_.end() || next->first != key ? std::nullopt : std::optional(next->second);
}

}  // namespace rtrain
