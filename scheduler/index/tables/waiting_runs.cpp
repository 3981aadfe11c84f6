#include "scheduler/index/tables/waiting_runs.hpp"

namespace rtrain {

void WaitingRuns::add(const WaitingRun& run) {
    WaitingBatch& batch = lines_[run.line][run.shape];
    batch.by_age.insert(run.waiter);
    batch.by_length.insert({run.length, run.waiter.id});
    if (!run.program.empty()) by_program_[run.program].insert(run.waiter);
    if (run.is_fresh) fresh_.insert(run.waiter.id);
    if (run.is_reserving) reserving_.insert(run.waiter.id);
}

void WaitingRuns::remove(const WaitingRun& run) {
    if (!run.program.empty()) {
        const auto of = by_program_.find(run.program);
        of->second.erase(run.waiter);
        if (of->second.empty()) by_program_.erase(of);
    }
    Batches& batches = lines_.at(run.line);
    WaitingBatch& batch = batches.at(run.shape);
    batch.by_age.erase(run.waiter);
    batch.by_length.erase({run.length, run.waiter.id});
    if (batch.by_age.empty()) batches.erase(run.shape);
    fresh_.erase(run.waiter.id);
    reserving_.erase(run.waiter.id);
}

const std::set<Waiter>& WaitingRuns::of_program(const std::string& program) const {
    static const std::set<Waiter> no_run;
    const auto entry = by_program_.find(program);
    return entry == by_program_.end() ? no_run : entry->second;
}

}  // namespace rtrain
