#include "runtime/worker/rank/checkpoints.hpp"

#include <algorithm>

namespace rtrain::worker {
namespace {

constexpr std::size_t recent_metrics_max = 64;

}  // namespace

void Checkpoints::reported(const Report& report) {
    recent_metrics_.emplace_back(report.index, report.metrics_json);
    if (recent_metrics_.size() > recent_metrics_max) recent_metrics_.pop_front();
    if (report.checkpoint && report.upload != Upload::none) uncommitted_.push_back(report.index);
}

std::vector<std::uint64_t> Checkpoints::awaited() const {
    std::vector<std::uint64_t> reports = uncommitted_;
    if (promised_ > settled_ && std::find(reports.begin(), reports.end(), promised_) == reports.end())
        reports.push_back(promised_);
    return reports;
}

std::optional<std::string> Checkpoints::take_fault() {
    if (faults_.empty()) return std::nullopt;
    std::string text = std::move(faults_.front());
    faults_.pop_front();
    return text;
}

void Checkpoints::on_message(const std::optional<ResumeFrom>& welcome) {
    if (!first_ && welcome) first_ = newest_ = welcome;
}

// An empty directory means that the storage does not accept the checkpoint at present.
void Checkpoints::on_message(const Reported& passed) {
    if (!passed.directory) return;
    std::uint64_t& last = passed.directory->empty() ? settled_ : promised_;
    last = std::max(last, passed.index);
}

void Checkpoints::on_message(const Committed& news) {
    std::erase(uncommitted_, news.index);
    settled_ = std::max(settled_, news.index);
    if (news.error) {
        faults_.push_back("the checkpoint of report " + std::to_string(news.index) +
                          " could not be stored: " + *news.error);
        return;
    }
    if (news.directory.empty()) return;  // The checkpoint was given up: the one before stays the newest.
    const auto metrics = std::find_if(recent_metrics_.begin(), recent_metrics_.end(),
                                      [&](const auto& past_report) { return past_report.first == news.index; });
    newest_ = ResumeFrom{.path = news.path,
                         .directory = news.directory,
                         .metrics_json = metrics == recent_metrics_.end() ? "{}" : metrics->second};
}

}  // namespace rtrain::worker
