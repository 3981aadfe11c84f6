// Stores the reports that the agent has not acknowledged yet. One of them may have a checkpoint that waits for an agent
// while none is connected.
//
//   add ─► sent over the connection, a window of them at a time ─► heard: gone
//       └─ the ranks pass it without an agent: what a newer checkpoint replaces goes on without its files
//
// A directory whose report was sent belongs to the agent from then on, also to the next agent, which may be storing it.
// Such a report is not changed any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "runtime/worker/frames/frames.hpp"

namespace rtrain::worker {

class KeptReports {
  public:
    // Invariant: less than the number of reports that an agent keeps of a rank that is ahead of the others.
    static constexpr std::uint64_t window = 48;
    static constexpr std::size_t bytes_max = std::size_t{16} << 20;

    bool empty() const { return frames_.empty(); }
    std::size_t size() const { return frames_.size(); }
    bool full() const { return bytes_ >= bytes_max; }  // true: the next report waits for the agent
    bool has(std::uint64_t index) const { return frames_.contains(index); }
    std::uint64_t first() const { return frames_.begin()->first; }  // requires that a frame is stored

    // Stores the frame. A report with files is stored beside it, for passed_with_files().
    const std::string& add(const Report& report);
    void heard_up_to(std::uint64_t index);  // the agent has acknowledged all reports up to this one
    void answered(std::uint64_t index);     // the agent has acknowledged this report

    // ---- sending
    void connected() { sent_ = 0; }  // a new connection: nothing was sent over it yet
    void sent(std::uint64_t index);  // the caller has sent or posted this frame
    bool all_sent() const { return frames_.empty() || sent_ >= frames_.rbegin()->first; }
    void send_due(const std::function<void(const std::string& frame)>& send);

    // ---- without an agent
    struct Replaced {
        std::uint64_t index = 0;
        std::string directory;  // the directory whose files are no longer needed
    };
    // The ranks have passed report `index`, with files of this rank. Returns the earlier report whose checkpoint it
    // replaces. Returns nullopt if there is none, if an agent has its files, or if its directory may not be removed.
    std::optional<Replaced> passed_with_files(std::uint64_t index,
                                              const std::function<bool(const std::string& directory)>& may_go);
    // The ranks have passed the report, and its files are not to be stored. Returns its directory; empty if an agent
    // has it.
    std::string passed_unstored(std::uint64_t index);

  private:
    struct Kept {
        std::string frame;
        std::optional<Report> report;  // a report with files that was not sent to any agent yet
    };
    void change(Kept& kept, const Report& report);

    std::map<std::uint64_t, Kept> frames_;
    std::size_t bytes_ = 0;
    std::uint64_t sent_ = 0;                // the newest report that was sent over this connection
    std::optional<std::uint64_t> pending_;  // the report whose checkpoint waits for an agent
};

}  // namespace rtrain::worker
