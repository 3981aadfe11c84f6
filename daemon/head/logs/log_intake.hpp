// Logs that agents send, on their way to the disk: written by a thread of their own in the order in which they came,
// and acknowledged once they are on disk. What the disk cannot take stays on its node, and is asked for later.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "daemon/head/base/options.hpp"
#include "daemon/head/logs/log_store.hpp"
#include "daemon/head/loop/feeds.hpp"
#include "daemon/head/loop/intake.hpp"
#include "daemon/net/loop/background.hpp"
#include "daemon/net/loop/work_thread.hpp"
#include "daemon/protocol/messages.hpp"

namespace rtrain::head {

class LogIntake {
  public:
    using Send = std::function<void(const std::string& node, const protocol::FromHead& message)>;
    LogIntake(net::Background background, Intake events, Feeds& feeds, const HeadOptions& options, Send send);

    struct Source {
        std::string node;
        protocol::AttemptRef attempt;  // as the agent calls it
    };
    void take(LogStore::Piece piece, const Source& from);
    // Acknowledges what nobody will ask for: the agent may let go of it.
    void let_go(const LogName& name, const Source& from, std::uint64_t end);
    void forget(RunId run);              // removes its logs, behind what was taken before
    void prune(const Cluster& cluster);  // removes logs of runs that ended longer ago than their logs.keep
    const std::string& directory() const { return store_.directory(); }

  private:
    // Runs `work` on the log thread, and `then` on the loop.
    void on_log_thread(std::function<void()> work, net::Loop::Task then);
    void taken(const LogName& name, const Source& from, const Result<std::uint64_t>& size);
    void put_off(const LogName& name, const Source& from, const Error& why);
    void offer_again();  // for what was put off
    void note_room();

    struct Unsynced {
        Source from;
        std::uint64_t offset = 0;
    };
    using Batch = std::map<LogName, Unsynced>;
    void later_sync();
    void sync();
    void synced(const Batch& batch, const Status& status);

    const net::Background background_;
    const Intake events_;
    Feeds& feeds_;
    const HeadOptions& options_;
    const Send send_;
    LogStore store_;
    Batch unsynced_;
    bool syncing_ = false;
    std::map<LogName, Source> put_off_;  // that could not be written
    std::size_t waiting_bytes_ = 0;      // that wait for their files
    bool room_noted_ = false;
    net::WorkThread writer_{net::ThreadPriority::behind_loop};  // last: it ends before what it writes to
};

}  // namespace rtrain::head
