// The checkpoints of a rank: the one to resume from, and what became of those that it has reported.
// Invariant: a report's index leaves `uncommitted_` only if the agent has sent its fate, or no agent will store it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/worker/frames/frames.hpp"

namespace rtrain::worker {

class Checkpoints {
  public:
    // ---- reports of this rank
    void reported(const Report& report);
    // The agent will not store the files of this report: a newer checkpoint has replaced them, or they are incomplete.
    void given_up(std::uint64_t report) { std::erase(uncommitted_, report); }
    bool all_committed() const { return uncommitted_.empty(); }
    std::vector<std::uint64_t> awaited() const;  // the reports whose fate a new connection must send
    std::optional<std::string> take_fault();     // the oldest upload that has failed and was not returned yet

    // ---- messages
    void on_message(const std::optional<ResumeFrom>& welcome);  // Only the first checkpoint counts.
    void on_message(const Reported& passed);
    void on_message(const Committed& news);

    // ---- where to resume
    const std::optional<ResumeFrom>& first() const { return first_; }  // written once
    const std::optional<ResumeFrom>& newest() const { return newest_; }
    std::uint64_t promised() const { return promised_; }  // the last report that passed with a checkpoint of any rank
    bool is_settled(std::uint64_t report) const { return settled_ >= report; }
    void no_longer_awaited(std::uint64_t report) { settled_ = report; }  // for a commit that takes too long

  private:
    std::vector<std::uint64_t> uncommitted_;
    std::deque<std::pair<std::uint64_t, std::string>> recent_metrics_;
    std::deque<std::string> faults_;
    std::uint64_t promised_ = 0;
    std::uint64_t settled_ = 0;  // the fate of the checkpoints up to this report is known, or no call waits for it
    std::optional<ResumeFrom> first_, newest_;
};

}  // namespace rtrain::worker
