// The threads of a server. A connection belongs to one lane (an io_context with one thread) for life, so sessions need
// no locks; what the loop wants of a session is posted to its lane. Lanes carry agents' sockets, so they touch no
// files: those have threads of their own, apart for each place.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "daemon/net/connection_table.hpp"
#include "daemon/net/loop/asio.hpp"
#include "daemon/net/loop/place_pools.hpp"
#include "daemon/net/server.hpp"

namespace rtrain::net {

// What lives in a lane and must end with it.
class LaneMember {
  public:
    virtual ~LaneMember() = default;
    virtual void drain() = 0;  // finish what is being written, begin nothing, end
    virtual void cut() = 0;    // end now: the lane's thread is gone, and what is still to come from the peer with it
};

struct Lane {
    std::set<LaneMember*> members;  // of the lane's thread; outlives the io_context, whose end ends members
    asio::io_context io{1};
    std::optional<asio::executor_work_guard<asio::io_context::executor_type>> open;
    std::thread thread;
    std::promise<void> ended;
    bool draining = false;

    void join(LaneMember* member) { members.insert(member); }
    void leave(LaneMember* member) { members.erase(member); }
};

// Shared by a server, its sessions' handles on the loop, and the tasks under way between the two. The lanes live until
// the last handle is gone, so a late answer is dropped instead of touching freed memory.
class Hub {
  public:
    Hub(Loop& home, ServerOptions settings, Handler answer)
        : loop(home),
          options(std::move(settings)),
          handler(std::make_shared<Handler>(std::move(answer))),
          table(ConnectionLimits::of(options.connections_max)) {}
    Loop& loop;
    const ServerOptions options;
    // Of the loop's thread. Null once the server is gone: no callback comes after that.
    std::shared_ptr<Handler> handler;
    std::shared_ptr<bool> alive = std::make_shared<bool>(true);
    std::atomic<std::size_t> connections = 0;
    ConnectionTable table;
    // Bodies and answers that are files: a connection's own thread never waits for a disk. Stopped by the server's end.
    PlacePools files{ThreadPriority::behind_loop};

    // Tells the loop that somebody was turned away, once for each address and reason. From any lane.
    void note_refusal(const std::string& address, const std::string& why);

  private:
    std::mutex noted_mutex_;
    std::set<std::string> noted_;

  public:
    std::vector<std::unique_ptr<Lane>> lanes;  // last: their connections' ends touch the members above
};

struct ConnectionTicket {  // one of the connections a server may hold; the hub outlives its lanes' connections
    ConnectionTicket(Hub& of, std::uint64_t in_table) : hub(of), number(in_table) { ++hub.connections; }
    ~ConnectionTicket() {
        hub.table.leave(number);
        --hub.connections;
    }
    ConnectionTicket(const ConnectionTicket&) = delete;
    ConnectionTicket& operator=(const ConnectionTicket&) = delete;
    Hub& hub;
    const std::uint64_t number;
};

}  // namespace rtrain::net
