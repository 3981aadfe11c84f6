// Memory that an agent shares with the workers of one attempt on its node, so that a report without files costs no
// message. A rank writes its frame into its ring of slots, and the last one to arrive wakes all. Where the agent has
// granted the round that is all: the ranks pass it by themselves, and the agent takes the frames of several rounds at
// once. Otherwise the last one notifies the agent over the socket (`ReportsPosted`), and it answers them all.
//
//   rank: post, arrive ─ the last one, round granted ─► passed ─ wake-up ─► every rank        (agent: take ─► heard)
//                      ─ the last one, not granted ─► notify ─► agent: take ─► pass ─ wake-up ─► every rank
//
// A round is granted up to an index that is a bounded number ahead of what the agent has `heard`, that is: has dealt
// with as with a frame of the socket. Ranks keep their frames until then: an agent that is killed gets them again.
// The last rank is found without a count that could go wrong: each rank writes that it has arrived, then looks at all
// others.
//
// Without its agent a rank is *detached*: its connection has ended, and it says so in its ring. Once all ranks of the
// attempt are detached they pass rounds by themselves without a grant, and keep every frame for the next agent, which
// shares a memory of its own. A round waits for that agent if a rank says so (a checkpoint that must be committed
// first), and so does each round behind `stop_after`, the report that ends the run.
//
// A wake-up raises a count that ranks wait on (a futex). It tells of messages on the socket too, which each ring
// counts. Neither side trusts the other's writes: a frame is copied before it is read, and workers of one attempt have
// one key.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace rtrain::worker {

class ReportMemory {
  public:
    static constexpr std::size_t frame_max = 992;   // a slot is 1 KiB
    static constexpr std::uint64_t slots = 32;      // of a ring: frames that the agent has not taken
    static constexpr std::uint64_t ahead_max = 24;  // rounds that may pass before the agent has heard of them

    // Nothing: this system has no such memory; sockets do it all.
    static std::optional<ReportMemory> create(std::uint32_t ranks);
    static std::optional<ReportMemory> open(int descriptor, std::uint32_t ring);  // the descriptor stays the caller's
    ReportMemory(ReportMemory&&) noexcept;
    ReportMemory& operator=(ReportMemory&&) noexcept;
    ~ReportMemory();

    // ---- the agent's side
    int descriptor() const { return descriptor_; }
    std::uint32_t ranks() const { return ranks_; }
    void clear(std::uint32_t ring);          // a rank begins to use it
    void count_message(std::uint32_t ring);  // one was sent to the rank's socket; wake_all follows soon
    void answer(std::uint32_t ring, std::uint64_t index);
    // Has every rank that arrives notify the agent, and takes the grant back: not all of the attempt's ranks are here.
    void each_notifies();
    // All that are here may pass `index`, and the agent has heard it. False: the ranks had passed it themselves.
    bool pass(std::uint64_t index, bool grant);
    void wake_all();
    void beat();  // the agent lives: said several times a second
    struct Posted {
        std::uint64_t index = 0;
        std::string frame;
        std::int64_t interval_ms = -1;  // as in post()
    };
    // Calls `on_frame` for each report behind number `taken`, and moves `taken` on to the newest.
    void take(std::uint32_t ring, std::uint64_t& taken, const std::function<void(Posted)>& on_frame);

    // ---- a worker's side, of its own ring
    // False: too long, or the slot is not free. `interval_ms`: from the report before to this one; -1: there is none.
    bool post(std::uint64_t index, std::string_view frame, std::int64_t interval_ms);
    enum class Arrival { waits, passed, notifies };  // notifies: the agent is to be told; it may be passed all the same
    Arrival arrive(std::uint64_t index, bool posted);
    bool released(std::uint64_t index) const;  // all have arrived
    std::uint64_t heard() const;
    std::uint32_t messages() const;                                        // so many were sent to its socket
    std::uint32_t wakeups() const;                                         // so many there were
    bool wait(std::uint32_t seen, std::chrono::milliseconds limit) const;  // false: no wake-up since `seen`

    // ---- a worker's side, without the agent
    void detach();                      // the connection has ended; wakes all, so that they look after theirs
    void attach();                      // it stands again: no round passes without the agent any more
    std::uint32_t detachments() const;  // so often did a rank detach itself
    std::uint32_t beats() const;
    void only_by_agent(std::uint64_t index);          // before arrive(): the agent alone passes this round
    void without_files(std::uint64_t index);          // before arrive(): nobody is to store files of this round
    void stop_after(std::uint64_t index);             // before arrive(): the last round that may pass
    bool pass_detached(std::uint64_t index);          // true: the round has passed; all ranks are to be of this node
    bool all_detached_at(std::uint64_t index) const;  // no rank is missing: what they wait for is the agent
    bool files_whole(std::uint64_t index) const;      // no rank has said without_files() of this round

  private:
    struct Head;
    struct Ring;
    struct Slot;
    ReportMemory(void* page, std::size_t bytes, std::uint32_t ranks, std::uint32_t own, int descriptor);
    Head& head() const;
    Ring& ring(std::uint32_t number) const;
    bool all_arrived(std::uint64_t index, bool& posted) const;
    bool agent_is_due(std::uint64_t index);

    void* page_ = nullptr;
    std::size_t bytes_ = 0;
    std::uint32_t ranks_ = 0, own_ = 0;
    int descriptor_ = -1;  // the agent's
};

}  // namespace rtrain::worker
