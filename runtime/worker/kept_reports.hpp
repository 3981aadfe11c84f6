// The reports that the agent has not heard yet, and of them the one whose checkpoint waits for an agent that is away.
//
//   add ─► sent over the connection, a window of them at a time ─► heard: gone
//       └─ the ranks pass it without an agent: what a newer checkpoint replaces goes on without its files
//
// A directory whose report was sent belongs to the agent from then on, also to the next one, which may be storing it:
// such a report is not changed any more.
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
    static constexpr std::uint64_t window = 48;  // fewer than the reports of a rank that an agent keeps ahead of others
    static constexpr std::size_t bytes_max = std::size_t{16} << 20;

    bool empty() const { return frames_.empty(); }
    std::size_t size() const { return frames_.size(); }
    bool full() const { return bytes_ >= bytes_max; }  // the next report waits for the agent
    bool has(std::uint64_t index) const { return frames_.contains(index); }
    std::uint64_t first() const { return frames_.begin()->first; }  // not of an empty one

    // Returns the frame, where it is kept. A report with files is kept beside it, for passed_with_files().
    const std::string& add(const Report& report);
    void heard_up_to(std::uint64_t index);  // the agent has dealt with all reports up to it
    void answered(std::uint64_t index);     // with this one

    // ---- sending
    void connected() { sent_ = 0; }  // nothing was sent over this connection yet
    void sent(std::uint64_t index);  // this frame was sent, or posted, by the caller
    bool all_sent() const { return frames_.empty() || sent_ >= frames_.rbegin()->first; }
    void send_due(const std::function<void(const std::string& frame)>& send);

    // ---- without an agent
    struct Replaced {
        std::uint64_t index = 0;
        std::string directory;  // its files are nobody's now
    };
    // The ranks have passed report `index`, with files of this rank. Returns the report before it whose checkpoint it
    // // replaces. Nothing: there is none, an agent has its files, or its directory may not go.
    std::optional<Replaced> passed_with_files(std::uint64_t index,
                                              const std::function<bool(const std::string& directory)>& may_go);
    // The ranks have passed it, and nobody is to store its files. Returns its directory; empty: an agent has it.
    std::string passed_unstored(std::uint64_t index);

  private:
    struct Kept {
        std::string frame;
        std::optional<Report> report;  // with files, and not sent to any agent yet
    };
    void change(Kept& kept, const Report& report);

    std::map<std::uint64_t, Kept> frames_;
    std::size_t bytes_ = 0;
    std::uint64_t sent_ = 0;                // the newest that was sent over this connection
    std::optional<std::uint64_t> pending_;  // the report whose checkpoint waits for an agent
};

}  // namespace rtrain::worker
