// Memory that an agent shares with the workers of one attempt on its node, so that a report without files costs no
// message: a rank writes its frame into its seat, and the last one to come wakes all. Where the agent has granted it
// that is all: the ranks pass the round by themselves, and the agent takes the frames of several rounds at once.
// Otherwise the last one rings the agent over the socket (`come`), and it answers them all.
//
//   rank: post, come ─ the last one, round granted ─► passed ─ bell ─► every rank        (agent: take ─► heard)
//                    ─ the last one, not granted ─► `come` ─► agent: take ─► pass ─ bell ─► every rank
//
// A round is granted up to an index that is a bounded number ahead of what the agent has `heard`, that is: has dealt
// with as with a frame of the socket. Ranks keep their frames until then: an agent that is killed gets them again.
// Who is the last one needs no count that could go wrong: each rank tells that it has come, then looks at all others.
//
// Neither side trusts the other's writes: a frame is copied before it is read, and workers of one attempt have one key.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace rtrain::worker {

class Board {
  public:
    static constexpr std::size_t frame_max = 992;   // a slot is 1 KiB
    static constexpr std::uint64_t slots = 32;      // of a seat: frames that the agent has not taken
    static constexpr std::uint64_t ahead_max = 24;  // rounds that may pass before the agent has heard of them

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
    void each_rings();  // not all of the attempt's ranks sit here: whoever comes rings, and nothing is granted
    // All that sit here may pass `index`, and the agent has heard it. False: the ranks had passed it themselves.
    bool pass(std::uint64_t index, bool grant);
    void ring();
    struct Posted {
        std::uint64_t index = 0;
        std::string frame;
        std::int64_t interval_ms = -1;  // as in post()
    };
    // What was posted behind report `taken`, which goes on to the newest.
    void take(std::uint32_t seat, std::uint64_t& taken, const std::function<void(Posted)>& on_frame);

    // ---- a worker's side, of its own seat
    // False: too long, or the slot is not free. `interval_ms`: from the report before to this one; -1: there is none.
    bool post(std::uint64_t index, std::string_view frame, std::int64_t interval_ms);
    enum class Come { waits, passed, rings };  // rings: the agent is to be rung; it may be passed all the same
    Come come(std::uint64_t index, bool posted);
    bool released(std::uint64_t index) const;  // all have come
    std::uint64_t heard() const;
    std::uint32_t letters() const;
    std::uint32_t bell() const;
    bool wait(std::uint32_t seen, std::chrono::milliseconds limit) const;  // false: not rung since `seen`

  private:
    struct Head;
    struct Seat;
    struct Slot;
    Board(void* page, std::size_t bytes, std::uint32_t seats, std::uint32_t own, int descriptor);
    Head& head() const;
    Seat& seat(std::uint32_t number) const;
    bool all_have_come(std::uint64_t index, bool& posted) const;
    bool agent_is_due(std::uint64_t index);

    void* page_ = nullptr;
    std::size_t bytes_ = 0;
    std::uint32_t seats_ = 0, own_ = 0;
    int descriptor_ = -1;  // the agent's
};

}  // namespace rtrain::worker
