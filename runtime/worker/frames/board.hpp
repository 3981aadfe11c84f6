// A page of memory that an agent shares with the workers of one attempt on its node, so that a report without files
// costs no message: a rank writes its frame into its seat, the last one to come rings the agent over the socket, and
// one wake-up answers them all. Everything else goes over the sockets; a rank that waits at the board hears of it by
// the bell.
//
//   rank: post ─► seat.frame ─ the last one: `come` ─► agent: take ─► ... ─► answer ─ ring ─► every rank: answered
//
// Neither side trusts the other's writes: a frame is copied before it is read, and workers of one attempt have one key.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rtrain::worker {

class Board {
  public:
    static constexpr std::size_t frame_max = 992;  // a seat is 1 KiB

    // Nothing: this system has no such memory; sockets do it all.
    static std::optional<Board> create(std::uint32_t seats);
    static std::optional<Board> open(int descriptor, std::uint32_t seat);  // the descriptor stays the caller's
    Board(Board&&) noexcept;
    Board& operator=(Board&&) noexcept;
    ~Board();

    // ---- the agent's side
    int descriptor() const { return descriptor_; }
    std::uint32_t seats() const { return seats_; }
    void clear(std::uint32_t seat);   // somebody sits down
    void letter(std::uint32_t seat);  // a message was sent to its socket; ring soon
    void answer(std::uint32_t seat, std::uint64_t index);
    void await(std::uint32_t ranks);  // so many are to come before the agent is rung; 0: each one rings
    void ring();
    struct Posted {
        std::string frame;
        std::int64_t waited_ms = 0;  // since it was posted
    };
    std::optional<Posted> take(std::uint32_t seat);

    // ---- a worker's side, of its own seat
    bool post(std::string_view frame);  // false: too long, or the one before was not taken
    bool last_to_come();                // this rank has come; true: the agent is to be rung
    std::uint64_t answered() const;
    std::uint32_t letters() const;
    std::uint32_t bell() const;
    bool wait(std::uint32_t seen, std::chrono::milliseconds limit) const;  // false: not rung since `seen`

  private:
    struct Head;
    struct Seat;
    Board(void* page, std::size_t bytes, std::uint32_t seats, std::uint32_t own, int descriptor);
    Head& head() const;
    Seat& seat(std::uint32_t number) const;

    void* page_ = nullptr;
    std::size_t bytes_ = 0;
    std::uint32_t seats_ = 0, own_ = 0;
    int descriptor_ = -1;  // the agent's
};

}  // namespace rtrain::worker
