// Follows workers' output files and sends them to the head as numbered pieces of bytes. The acknowledged offsets are
// stored on disk, so that a restart of either side loses nothing and repeats little. At most a window of bytes per file
// is unacknowledged. A user's logs stay within a part of the disk, and each file within `logs.max`. A longer file loses
// its middle, whether the head has it or not.
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
    // `send` returns false without a connection, or if the connection has no room.
    LogShipper(net::Loop& loop, NodeFiles files, std::function<bool(const protocol::LogChunk&)> send,
               ShareOfUser share);
    ~LogShipper();

    struct Bounds {
        std::string user{};           // the user whose share of the disk the logs use
        std::uint64_t bytes_max = 0;  // bound on one file; 0: no limit
    };
    void follow(const protocol::AttemptRef& attempt, const std::vector<std::uint32_t>& ranks, const Bounds& bounds);
    // Follows the output of the setup, before there are workers.
    void follow_setup(const protocol::AttemptRef& attempt, std::uint32_t rank, const Bounds& bounds);
    void hold_to_limits(AttemptKey attempt);  // called before the files are copied, when no process writes any more
    // Ends the following when no process writes any more. Calls `done` once all bytes are sent. Without a connection,
    // or without room at the head, calls it at once, and sends the rest later.
    void finish(AttemptKey attempt, std::function<void()> done);
    void acknowledged(const protocol::LogAck& ack);
    void resend();  // after a new connection: sends again from the acknowledged offsets
    void disconnected();
    // True if the head has every byte of an ended attempt, or if the attempt is not followed.
    bool complete(AttemptKey attempt) const;
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
        std::vector<Seen> seen;  // for the bytes that the head does not have yet and may get again
        bool ended = false, last_sent = false;
        std::uint64_t held = 0;  // number of bytes on the disk, as counted in `held_`
        storage::LogCuts cuts{};
        std::uint64_t end_at = 0;  // bound on the kept bytes if the file system cannot cut out the middle; 0: it can
        bool later = false;        // the head has no room now; it sends another LogAck when it has
    };
    static std::uint64_t end_of(File& file);  // the size without bytes behind `end_at`
    static void send_again(File& file);       // from the first byte that the head lacks
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
    bool pump_file(File& file);  // false without a connection, or if the connection has no room
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
    std::map<std::string, std::uint64_t> held_of_;  // bytes by user
    bool connected_ = false;
    int inotify_ = -1;
    std::map<int, AttemptKey> watches_;
    std::map<AttemptKey, Followed> followed_;
};

LogShipper::Bounds log_bounds(const AttemptContext& context);

}  // namespace rtrain::agent
