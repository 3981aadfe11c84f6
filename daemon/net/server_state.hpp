// The threads of a server. A connection belongs to one I/O thread (with its own io_context) for life, so sessions need
// no locks; what the loop wants of a session is posted to its I/O thread. These carry agents' sockets, so they touch no
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

// What lives on an I/O thread and must end with it.
class IoThreadMember {
  public:
    virtual ~IoThreadMember() = default;
    virtual void drain() = 0;  // finish what is being written, begin nothing, end
    virtual void cut() = 0;    // end now: the I/O thread is gone, and what is still to come from the peer with it
};

struct IoThread {
    std::set<IoThreadMember*> members;  // of this thread alone; outlives the io_context, whose end ends members
    asio::io_context io{1};
    std::optional<asio::executor_work_guard<asio::io_context::executor_type>> open;
    std::thread thread;
    std::promise<void> ended;
    bool draining = false;

    void join(IoThreadMember* member) { members.insert(member); }
    void leave(IoThreadMember* member) { members.erase(member); }
};

// Shared by a server, its sessions' handles on the loop, and the tasks under way between the two. The I/O threads live
// until the last handle is gone, so a late answer is dropped instead of touching freed memory.
class ServerState {
  public:
    ServerState(Loop& home, ServerOptions settings, Handler answer)
        : loop(home),
          options(std::move(settings)),
          handler(std::make_shared<Handler>(std::move(answer))),
          table(ConnectionLimits::of(options.connections_max)) {}
    Loop& loop;
    const ServerOptions options;
    // The handler belongs to the loop's thread. It is null once the server is gone: no callback comes after that.
    std::shared_ptr<Handler> handler;
    std::shared_ptr<bool> alive = std::make_shared<bool>(true);
    std::atomic<std::size_t> connections = 0;
    ConnectionTable table;
    // Bodies and answers that are files: a connection's own thread never waits for a disk. Stopped by the server's end.
    PlacePools files{ThreadPriority::behind_loop};

    // Tells the loop that somebody was refused, once for each address and reason. From any I/O thread.
    void note_refusal(const std::string& address, const std::string& why);

  private:
    std::mutex noted_mutex_;
    std::set<std::string> noted_;

  public:
    std::vector<std::unique_ptr<IoThread>> io_threads;  // last: their connections' ends touch the members above
};

struct ConnectionTicket {  // one of the connections a server may hold; the server state outlives the connections of its
                           // threads
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
