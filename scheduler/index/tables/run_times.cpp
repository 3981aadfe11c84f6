#include "scheduler/index/tables/run_times.hpp"

#include <algorithm>
#include <cstdint>

namespace rtrain {

void RunTimes::add(RunId id, const TimesOfRun& times) {
    if (times.limit) limits_.insert({*times.limit, id});
    if (times.retry) retries_.insert({*times.retry, id});
    if (times.reservation) reservations_.insert({*times.reservation, id});
    if (times.growth) growths_.insert({*times.growth, id});
    if (times.starvation) starvations_.insert({*times.starvation, id});
}

void RunTimes::remove(RunId id, const TimesOfRun& times) {
    if (times.limit) limits_.erase({*times.limit, id});
    if (times.retry) retries_.erase({*times.retry, id});
    if (times.reservation) reservations_.erase({*times.reservation, id});
    if (times.growth) growths_.erase({*times.growth, id});
    if (times.starvation) starvations_.erase({*times.starvation, id});
}

std::optional<Time> RunTimes::next_wake(Time after) const {
    std::optional<Time> wake;
    if (!limits_.empty()) wake = limits_.begin()->first;
    for (const Times* times : {&retries_, &reservations_, &growths_, &starvations_}) {
        const auto next = times->upper_bound({after, RunId{UINT64_MAX}});
        if (next != times->end() && (!wake || next->first < *wake)) wake = next->first;
    }
    return wake;
}

std::vector<RunId> RunTimes::limits_until(Time now) const {
    std::vector<RunId> ids;
    for (auto at = limits_.begin(); at != limits_.end() && at->first <= now; ++at) ids.push_back(at->second);
    std::sort(ids.begin(), ids.end());
    return ids;
}

std::vector<RunId> RunTimes::retries_until(Time until) const {
    std::vector<RunId> ids;
    for (auto at = retries_.begin(); at != retries_.end() && at->first <= until; ++at) ids.push_back(at->second);
    return ids;
}

bool RunTimes::is_due_within(Time after, Time until) const {
    const auto due = [&](const Times& times) {
        const auto next = times.upper_bound({after, RunId{UINT64_MAX}});
        return next != times.end() && next->first <= until;
    };
    return due(retries_) || due(reservations_) || due(growths_) || due(starvations_);
}

}  // namespace rtrain
