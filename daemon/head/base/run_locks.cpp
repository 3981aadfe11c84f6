// See run_locks.hpp.
#include "daemon/head/base/run_locks.hpp"

#include <utility>

namespace rtrain::head {

void RunLocks::take(RunId run, Work work) {
    const auto [under_way, first] = waiting_->runs.try_emplace(run);
    if (first) return give(waiting_, run, work);
    under_way->second.push_back(std::move(work));
}

void RunLocks::give(const std::shared_ptr<Waiting>& waiting, RunId run, const Work& work) {
    work(Held(nullptr, [kept = std::weak_ptr(waiting), run](std::nullptr_t) {
        if (const auto still = kept.lock()) end(still, run);
    }));
}

void RunLocks::end(const std::shared_ptr<Waiting>& waiting, RunId run) {
    const auto under_way = waiting->runs.find(run);
    if (under_way->second.empty()) return (void)waiting->runs.erase(under_way);
    const Work next = std::move(under_way->second.front());
    under_way->second.pop_front();
    give(waiting, run, next);
}

}  // namespace rtrain::head
