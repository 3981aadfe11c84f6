// The broadcasts of a rank: the request that the agent has not answered, and the answer that no call has taken yet.
// Invariant: both belong to broadcast `next_`. So an answer that is sent twice, after a reconnection, counts once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/worker/frames/frames.hpp"

namespace rtrain::worker {

class Broadcasts {
  public:
    void count_from(std::uint64_t index) { next_ = std::max(next_, index); }
    const std::string& begin(std::optional<std::string> data);  // returns the frame to be sent
    // Returns the frame that must be sent again over a new connection; null if there is none.
    const std::string* unanswered() const { return request_ ? &*request_ : nullptr; }
    void on_message(Broadcast answer);
    bool is_answered() const { return answer_.has_value(); }
    std::string take_answer();  // ends the broadcast; requires is_answered()

  private:
    std::uint64_t next_ = 1;
    std::optional<std::string> request_;  // a frame
    std::optional<std::string> answer_;   // rank 0's bytes
};

}  // namespace rtrain::worker
