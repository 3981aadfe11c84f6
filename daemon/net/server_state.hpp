// The threads of a server. A connection belongs to one I/O thread (with its own io_context) for its whole life, so
// sessions need no locks. The loop posts to a session's I/O thread. I/O threads carry the agents' sockets, so they use
// no files: files have threads of their own, separated by place.
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

// An object that belongs to an I/O thread and must end with it.
class IoThreadMember {
  public:
    virtual ~IoThreadMember() = default;
    virtual void drain() = 0;  // finish the present write, begin nothing further, and end
    virtual void cut() = 0;    // end now: the I/O thread stops, and bytes that are still to arrive are lost
};

struct IoThread {
    // used by this thread only; outlives the io_context, whose destruction ends members
    std::set<IoThreadMember*> members;
    asio::io_context io{1};
    std::optional<asio::executor_work_guard<asio::io_context::executor_type>> open;
    std::thread thread;
    std::promise<void> ended;
    bool draining = false;

    void join(IoThreadMember* member) { members.insert(member); }
    void leave(IoThreadMember* member) { members.erase(member); }
};

// Shared by a server, the loop's handles of its sessions, and tasks between both. The I/O threads live until the last
// handle is destroyed, so a late answer is dropped instead of using freed memory.
class ServerState {
  public:
    ServerState(Loop& home, ServerOptions settings, Handler answer)
        : loop(home),
          options(std::move(settings)),
          handler(std::make_shared<Handler>(std::move(answer))),
          table(ConnectionLimits::of(options.connections_max)) {}
    Loop& loop;
    const ServerOptions options;
    // The handler belongs to the loop's thread. It is null after the server has ended: no callback runs then.
    std::shared_ptr<Handler> handler;
    std::shared_ptr<bool> alive = std::make_shared<bool>(true);
    std::atomic<std::size_t> connections = 0;
    ConnectionTable table;
    // Threads for bodies and answers that are files, so that a connection's own thread never waits for a disk. Stopped
    // when the server ends.
    PlacePools files{ThreadPriority::behind_loop};
    // Threads that parse long WebSocket texts, one at a time of each peer: an I/O thread carries other connections.
    PlacePools readers{ThreadPriority::behind_loop, {.per_place = 1, .total = 2}};

    // Reports a refusal to the loop, once per address and reason. Callable from any I/O thread.
    void note_refusal(const std::string& address, const std::string& why);

  private:
    std::mutex noted_mutex_;
    std::set<std::string> noted_;

  public:
    std::vector<std::unique_ptr<IoThread>> io_threads;  // last: their connections' ends touch the members above
};

// One of the connections that a server may hold. The server state outlives the connections of its threads.
struct ConnectionTicket {
    ConnectionTicket(ServerState& of, std::uint64_t in_table) : server(of), number(in_table) { ++server.connections; }
    ~ConnectionTicket() {
        server.table.leave(number);
        --server.connections;
    }
    ConnectionTicket(const ConnectionTicket&) = delete;
    ConnectionTicket& operator=(const ConnectionTicket&) = delete;
    ServerState& server;
    const std::uint64_t number;
};

}  // namespace rtrain::net
