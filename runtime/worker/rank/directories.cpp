#include "runtime/worker/rank/directories.hpp"

#include <algorithm>
#include <utility>

namespace rtrain::worker {
namespace {

constexpr std::size_t spares_most = 2;  // one waits for the next agent while the next one is written
constexpr std::size_t spares_kept_most = 4;

}  // namespace

void StagingDirectories::on_message(const Staged& answer) {
    if (answer.spare) {
        if (spares_requested_ > 0) --spares_requested_;
        if (!answer.path.empty()) spares_.push_back(answer.path);
        return;
    }
    answer_ = answer;
    if (answer_.path.empty() && answer_.error.empty())
        answer_.error = "the agent could not make a checkpoint directory";
    is_requested_ = false;
}

void StagingDirectories::request() {
    answer_.path.clear();
    is_requested_ = true;
}

bool StagingDirectories::take_from_program(const std::string& path) {
    const auto own = std::find(own_.begin(), own_.end(), path);
    if (own == own_.end()) return false;
    own_.erase(own);
    return true;
}

std::optional<std::string> StagingDirectories::take_spare() {
    if (spares_.empty()) return std::nullopt;
    std::string path = std::move(spares_.back());
    spares_.pop_back();
    return path;
}

bool StagingDirectories::add_spare(std::string path) {
    if (spares_.size() >= spares_kept_most) return false;
    spares_.push_back(std::move(path));
    return true;
}

std::size_t StagingDirectories::request_spares() {
    const std::size_t present = spares_.size() + spares_requested_;
    const std::size_t missing = present < spares_most ? spares_most - present : 0;
    spares_requested_ += missing;
    return missing;
}

}  // namespace rtrain::worker
