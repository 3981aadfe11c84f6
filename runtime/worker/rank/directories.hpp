// The staging directories of a rank: the one that it has requested, those that the program has received and not
// reported yet, and spares for times without an agent.
// Invariant: a directory is in at most one of them, and in none while a report with its files is under way.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "runtime/worker/frames/frames.hpp"

namespace rtrain::worker {

class StagingDirectories {
  public:
    void on_message(const Staged& answer);

    // ---- a directory for the present call
    void request();  // the caller sends Stage
    void withdraw_request() { is_requested_ = false; }
    bool is_requested() const { return is_requested_; }  // true: the agent has not answered
    const Staged& answer() const { return answer_; }     // requires !is_requested()

    // ---- directories of the program
    void give_to_program(std::string path) { own_.push_back(std::move(path)); }
    bool take_from_program(const std::string& path);  // returns false if the program did not receive this directory

    // ---- spares
    std::optional<std::string> take_spare();
    bool add_spare(std::string path);                        // returns false if there are enough
    std::size_t request_spares();                            // returns how many times the caller sends Stage
    void forget_spare_requests() { spares_requested_ = 0; }  // Another agent does not answer them.

  private:
    bool is_requested_ = false;
    Staged answer_;
    std::vector<std::string> own_, spares_;
    std::size_t spares_requested_ = 0;
};

}  // namespace rtrain::worker
