// Follows workers' output files and sends them to the head as numbered pieces of bytes. What the head has acknowledged
// is remembered on disk, so nothing is lost and little is sent twice over a restart of either. Bounded: at most a
// window per file is under way. A user's logs stay within a part of the disk, and each file within `logs.max`: what is
// more loses its middle, whether the head has it or not.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/log_cuts.hpp"
#include "daemon/agent/disk/node_files.hpp"
#include "daemon/net/loop/loop.hpp"

namespace rtrain::agent {

struct AttemptContext;

class LogShipper {
  public:
    static constexpr std::uint64_t window = 1 << 20, piece = 128 << 10;
    // Bytes that one user's logs may have, where all users' logs together have `held`.
    using ShareOfUser = std::function<std::uint64_t(std::uint64_t held)>;
    // `send` is false while there is no connection, or no room on it.
    LogShipper(net::Loop& loop, NodeFiles files, std::function<bool(const protocol::LogChunk&)> send,
               ShareOfUser share);
    ~LogShipper();

    struct Bounds {
        std::string user{};           // whose share of the disk it is
        std::uint64_t bytes_max = 0;  // of one file; 0: no limit of its own
    };
    void follow(const protocol::AttemptRef& attempt, const std::vector<std::uint32_t>& ranks, const Bounds& bounds);
    // Before there are workers.
    void follow_setup(const protocol::AttemptRef& attempt, std::uint32_t rank, const Bounds& bounds);
    void hold_to_limits(AttemptKey attempt);  // before its files are copied, once no process writes any more
    // No process writes any more: `done` is called once everything is sent, or there is no connection to send it on,
    // or no room on the head (then it follows when there is).
    void finish(AttemptKey attempt, std::function<void()> done);
    void acknowledged(const protocol::LogAck& ack);
    void resend();  // a new connection: from the acknowledged offsets on
    void disconnected();
    bool complete(AttemptKey attempt) const;  // ended, and the head has every byte; or not followed at all
    std::function<void(AttemptKey)> on_complete = [](AttemptKey) {};
    void forget(AttemptKey attempt);

  private:
    struct File {
        protocol::AttemptRef attempt;
        std::uint32_t rank = 0;
        std::string stream, path;
        std::uint64_t acknowledged = 0, sent = 0;
        struct Seen {  // the file's size at a time
            std::uint64_t bytes = 0;
            std::int64_t wall_ms = 0;
        };
        std::vector<Seen> seen;  // of what the head does not have yet: it may be sent again
        bool ended = false, last_sent = false;
        std::uint64_t held = 0;  // bytes on the disk, as counted in `held_`
        storage::LogCuts cuts{};
        std::uint64_t end_at = 0;  // where the file system cuts no middle out: nothing is kept behind it; 0: it does
        bool later = false;        // the head has no room for the piece now; it sends another LogAck once it has
    };
    static std::uint64_t end_of(File& file);  // the size that counts
    static void send_again(File& file);       // from where the head has it
    struct Followed {
        Bounds bounds;
        std::vector<File> files;
        int watch = -1;
        bool dirty = false, scheduled = false;
        std::function<void()> done;
    };
    Followed& begin(AttemptKey attempt, const Bounds& bounds);
    void add(Followed& followed, const protocol::AttemptRef& attempt, std::uint32_t rank, const char* stream);
    void count(Followed& followed, File& file);
    void uncount(Followed& followed);
    void hold_file(Followed& followed, File& file, std::uint64_t most);
    void hold_user(const std::string& user);
    void watch(AttemptKey attempt, Followed& followed);
    void pump(AttemptKey attempt);
    static void note_growth(File& file);
    bool pump_file(File& file);  // false: there is no connection, or no room on it
    bool send_lost(File& file, const storage::LogCut& cut);
    void schedule(AttemptKey attempt, std::int64_t in_ms);
    void changed();
    void settle(Followed& followed);
    void remember(AttemptKey attempt, const Followed& followed) const;

    net::Loop& loop_;
    NodeFiles files_;
    std::function<bool(const protocol::LogChunk&)> send_;
    ShareOfUser share_;
    std::uint64_t held_ = 0;                        // bytes of all users' files
    std::map<std::string, std::uint64_t> held_of_;  // of each user's
    bool connected_ = false;
    int inotify_ = -1;
    std::map<int, AttemptKey> watches_;
    std::map<AttemptKey, Followed> followed_;
};

LogShipper::Bounds log_bounds(const AttemptContext& context);

}  // namespace rtrain::agent
