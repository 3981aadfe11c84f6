// Writes the logs that agents send. A separate thread writes them in the order of their arrival. They are acknowledged
// once they are on disk. A piece that the disk has no space for, or that exceeds its user's limit, stays on its node
// and is requested later.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
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
    struct Uses {
        net::Background background;
        Intake events;
        Feeds& feeds;
        const HeadOptions& options;
        UserBytes& bytes;
        Send send;
    };
    explicit LogIntake(Uses uses);

    struct Source {
        std::string node;
        protocol::AttemptRef attempt;  // the attempt, identified as the agent does it
    };
    void take(LogStore::Piece piece, const Source& from);
    // Acknowledges a piece without storing it, because no reader needs it. The agent may then delete it.
    void let_go(const LogName& name, const Source& from, std::uint64_t end);
    void forget(RunId run);  // removes the run's logs, after all earlier pieces were written
    // Removes the logs of runs that ended longer ago than their `logs.keep`. Counts the bytes of the other runs' logs.
    void prune(const Cluster& cluster);
    const std::string& directory() const { return store_.directory(); }

  private:
    // Runs `work` on the log thread, and `then` on the loop.
    void on_log_thread(std::function<void()> work, net::Loop::Task then);
    void taken(const LogName& name, const Source& from, const Result<std::uint64_t>& size);
    void put_off(const LogName& name, const Source& from, const Error& why);
    void offer_again();  // requests the pieces that were refused before
    void note_room();
    // adds a notice that the run's logs stay on their nodes, because the run's user is at the limit; `why`: the limit's
    // error
    void note_limit(RunId run, const Error& why);

    struct Unsynced {
        Source from;
        std::uint64_t offset = 0;
    };
    using Batch = std::map<LogName, Unsynced>;
    void later_sync();
    void sync();
    void synced(const Batch& batch, const Status& status);

    const Uses uses_;
    LogStore store_;
    Batch unsynced_;
    bool syncing_ = false;
    std::map<LogName, Source> put_off_;  // pieces that were refused for now, to be requested again; key: the log
    std::size_t waiting_bytes_ = 0;      // bytes of pieces that wait to be written
    bool room_noted_ = false;
    std::set<RunId> limit_noted_;  // runs for which note_limit has added its notice
    // the last member, because the thread must end before the members that it uses
    net::WorkThread writer_{net::ThreadPriority::behind_loop};
};

}  // namespace rtrain::head
