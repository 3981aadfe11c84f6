// Memory that an agent shares with the workers of one attempt on its node, so that a report without files needs no
// message. A rank writes its frame into its ring of slots, and the last rank to arrive wakes all others. If the agent
// has granted the round, the ranks pass it without the agent, which takes the frames of several rounds at once.
// Otherwise the last rank notifies the agent over the socket (`ReportsPosted`), and the agent answers all ranks.
//
//   rank: post, arrive ─ the last one, round granted ─► passed ─ wake-up ─► every rank        (agent: take ─► heard)
//                      ─ the last one, not granted ─► notify ─► agent: take ─► pass ─ wake-up ─► every rank
//
// Rounds are granted up to an index that is a bounded number ahead of `heard`: the reports that the agent has handled
// like frames of the socket. Ranks keep their frames until then, and send them again if the agent is killed. The last
// rank is found without a counter that could become wrong: each rank writes that it has arrived, and then reads the
// state of all others.
//
// A rank without a connection to its agent is *detached*, and writes that into its ring. Once all ranks of the attempt
// are detached, they pass rounds without a grant and keep each frame for the next agent, which shares a memory of its
// own. A round waits for that agent if a rank requires it (a checkpoint that must be committed first), and so does each
// round after `stop_after`, the report that ends the run.
//
// A wake-up increments a counter on which ranks wait (a futex). It also stands for messages on the socket, which each
// ring counts. Neither side trusts the other's writes: a frame is copied before it is read. Workers of one attempt
// trust each other.
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
    static constexpr std::size_t frame_max = 992;  // a slot is 1 KiB
    static constexpr std::uint64_t slots = 32;     // per ring; the most frames that the agent has not taken
    // the most rounds that may pass before the agent has acknowledged them
    static constexpr std::uint64_t ahead_max = 24;

    // Returns nullopt if the system has no such memory; sockets then carry all messages.
    static std::optional<ReportMemory> create(std::uint32_t ranks);
    static std::optional<ReportMemory> open(int descriptor, std::uint32_t ring);  // the descriptor stays the caller's
    ReportMemory(ReportMemory&&) noexcept;
    ReportMemory& operator=(ReportMemory&&) noexcept;
    ~ReportMemory();

    // ---- the agent's side
    int descriptor() const { return descriptor_; }
    std::uint32_t ranks() const { return ranks_; }
    void clear(std::uint32_t ring);          // called when a rank begins to use the ring
    void count_message(std::uint32_t ring);  // a message was sent to the rank's socket; wake_all follows soon
    void answer(std::uint32_t ring, std::uint64_t index);
    // Makes each rank that arrives notify the agent, and withdraws the grant: some of the attempt's ranks are not here.
    void each_notifies();
    // All ranks here may pass `index`, and the agent has acknowledged it. Returns false if the ranks had passed it
    // themselves.
    bool pass(std::uint64_t index, bool grant);
    void wake_all();
    void beat();  // shows that the agent is alive; called several times a second
    struct Posted {
        std::uint64_t index = 0;
        std::string frame;
        std::int64_t interval_ms = -1;  // as in post()
    };
    // Calls `on_frame` for each report after number `taken`, and moves `taken` to the newest.
    void take(std::uint32_t ring, std::uint64_t& taken, const std::function<void(Posted)>& on_frame);

    // ---- a worker's side, of its own ring
    // Returns false if the frame is too long or the slot is not free. `interval_ms`: time since the report before; -1:
    // none.
    bool post(std::uint64_t index, std::string_view frame, std::int64_t interval_ms);
    // `notifies`: the agent must be notified; the round may have passed all the same
    enum class Arrival { waits, passed, notifies };
    Arrival arrive(std::uint64_t index, bool posted);
    bool released(std::uint64_t index) const;  // true: all ranks have arrived
    std::uint64_t heard() const;
    std::uint32_t messages() const;  // number of messages that were sent to the rank's socket
    std::uint32_t wakeups() const;   // number of wake-ups so far
    // returns false if there was no wake-up since `seen`
    bool wait(std::uint32_t seen, std::chrono::milliseconds limit) const;

    // ---- a worker's side, without the agent
    void detach();                      // the connection has ended; wakes all ranks, so that they check their own
    void attach();                      // the connection stands again: no further round passes without the agent
    std::uint32_t detachments() const;  // number of times that any rank has detached itself
    std::uint32_t beats() const;
    void only_by_agent(std::uint64_t index);  // called before arrive(): only the agent passes this round
    void without_files(std::uint64_t index);  // called before arrive(): the files of this round are not to be stored
    void stop_after(std::uint64_t index);     // called before arrive(): the last round that may pass
    // returns true if the round has passed; requires that all ranks are on this node
    bool pass_detached(std::uint64_t index);
    bool all_detached_at(std::uint64_t index) const;  // true: all ranks have arrived, so only the agent is missing
    bool files_whole(std::uint64_t index) const;      // true: no rank has called without_files() for this round

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
    int descriptor_ = -1;  // used by the agent only
};

}  // namespace rtrain::worker
