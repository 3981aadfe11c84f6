#include "scheduler/index/tables/expected_ends.hpp"

namespace rtrain {

bool ExpectedEnds::drop_end(AttemptId id, const Release* unless) {
    const auto before = end_of_.find(id);
    if (before == end_of_.end()) return false;
    if (unless != nullptr && before->second == *unless) return true;
    ends_.erase(before->second);
    end_of_.erase(before);
    return false;
}

void ExpectedEnds::put(const Release& release) {
    if (drop_end(release.attempt, &release)) return;
    restless_.erase(release.attempt);
    ends_.insert(release);
    end_of_.emplace(release.attempt, release);
}

void ExpectedEnds::put_restless(AttemptId live) {
    drop_end(live, nullptr);
    restless_.insert(live);
}

void ExpectedEnds::remove(AttemptId id) {
    drop_end(id, nullptr);
    restless_.erase(id);
}

}  // namespace rtrain
