#include "runtime/worker/rank/kept_reports.hpp"

#include <algorithm>
#include <utility>

namespace rtrain::worker {

const std::string& KeptReports::add(const Report& report) {
    Kept kept{.frame = encode(FromWorker{report}), .report = {}};
    if (report.checkpoint) kept.report = report;
    bytes_ += kept.frame.size();
    return frames_.insert_or_assign(report.index, std::move(kept)).first->second.frame;
}

void KeptReports::heard_up_to(std::uint64_t index) {
    while (!frames_.empty() && first() <= index) answered(first());
}

void KeptReports::answered(std::uint64_t index) {
    const auto entry = frames_.find(index);
    if (entry == frames_.end()) return;
    bytes_ -= entry->second.frame.size();
    frames_.erase(entry);
    if (pending_ == index) pending_.reset();
}

void KeptReports::sent(std::uint64_t index) {
    sent_ = std::max(sent_, index);
    if (const auto entry = frames_.find(index); entry != frames_.end()) entry->second.report.reset();
}

// An agent accepts few reports of a rank that is ahead of the others. The rest follows with the acknowledgements.
void KeptReports::send_due(const std::function<void(const std::string& frame)>& send) {
    for (auto entry = frames_.upper_bound(sent_); entry != frames_.end() && entry->first < first() + window; ++entry) {
        sent_ = entry->first;
        entry->second.report.reset();
        if (pending_ == sent_) pending_.reset();
        send(entry->second.frame);
    }
}

void KeptReports::change(Kept& kept, const Report& report) {
    bytes_ -= kept.frame.size();
    kept = {.frame = encode(FromWorker{report}), .report = {}};
    bytes_ += kept.frame.size();
}

std::optional<KeptReports::Replaced> KeptReports::passed_with_files(
    std::uint64_t index, const std::function<bool(const std::string& directory)>& may_go) {
    const auto before = std::exchange(pending_, index);
    const auto entry = before ? frames_.find(*before) : frames_.end();
    if (entry == frames_.end() || !entry->second.report) return std::nullopt;
    Report report = *entry->second.report;
    if (!may_go(report.checkpoint->path)) return std::nullopt;
    Replaced replaced{.index = *before, .directory = report.checkpoint->path};
    report.checkpoint.reset();
    report.checkpoint_error = "a newer checkpoint replaced it while the agent was away";
    report.error_reason = replaced_reason;
    change(entry->second, report);
    return replaced;
}

std::string KeptReports::passed_unstored(std::uint64_t index) {
    const auto entry = frames_.find(index);
    if (entry == frames_.end() || !entry->second.report) return {};
    Report report = *entry->second.report;
    std::string directory = std::move(report.checkpoint->path);
    report.checkpoint.reset();
    change(entry->second, report);
    return directory;
}

}  // namespace rtrain::worker
