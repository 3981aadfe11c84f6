// The agent's side of boards (runtime/worker/frames/board.hpp): one for each attempt whose workers can sit at one. What
// is to be told at it is gathered, so that a round of answers is one wake-up.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "daemon/agent/words.hpp"
#include "runtime/worker/frames/board.hpp"

namespace rtrain::agent {

class Boards {
  public:
    struct Place {
        int descriptor = -1;
        std::uint32_t seat = 0;
    };
    std::optional<Place> offer(AttemptKey attempt, std::uint32_t rank, const std::set<std::uint32_t>& ranks);
    void taken(AttemptKey attempt, std::uint32_t rank);  // it looks at its seat now
    void left(AttemptKey attempt, std::uint32_t rank);
    void close(AttemptKey attempt) { boards_.erase(attempt); }

    bool answer(AttemptKey attempt, std::uint32_t rank, std::uint64_t index);  // false: it does not look here
    void letter(AttemptKey attempt, std::uint32_t rank);
    void ring();  // all boards with something to tell

    // What its ranks have posted, in their order.
    using Hear = std::function<void(std::uint32_t rank, const worker::Board::Posted&)>;
    void take(AttemptKey attempt, const Hear& hear);

  private:
    struct OfAttempt {
        explicit OfAttempt(worker::Board made) : board(std::move(made)) {}
        worker::Board board;
        std::map<std::uint32_t, std::uint32_t> seats;    // by rank
        std::set<std::uint32_t> present;                 // ranks that look at theirs
        std::map<std::uint32_t, std::uint64_t> answers;  // by rank, not told yet
        bool news = false;
    };
    OfAttempt* find(AttemptKey attempt, std::uint32_t rank);  // null: this rank does not look at a board
    std::map<AttemptKey, OfAttempt> boards_;
};

}  // namespace rtrain::agent
