// The Unix socket that workers dial: checks who they are, turns their frames into inputs and answers into frames.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/agent/machine/messages.hpp"
#include "daemon/agent/worker_link/rank_holders.hpp"
#include "daemon/agent/worker_link/shared_reports.hpp"
#include "daemon/net/unix.hpp"

namespace rtrain::agent {

struct WorkerIdentity {
    AttemptKey attempt;
    std::string key;
    std::set<std::uint32_t> ranks;  // on this node
    std::int64_t uid = -1;          // whose processes they are, beside root's and the agent's own; -1: the agent's own
    // Returns the file that tells the next agent who has the rank's place. Empty: that is not kept.
    std::function<std::string(std::uint32_t rank)> holder_file = {};
};

class WorkerServer {
  public:
    ~WorkerServer();
    using Enqueue = std::function<void(Input)>;
    using Reading = std::function<std::optional<worker::Welcome>(AttemptKey, std::uint32_t rank)>;
    static Result<std::unique_ptr<WorkerServer>> listen(net::Loop& loop, const std::string& path, Enqueue enqueue,
                                                        net::UnixLimits limits = {});

    void admit(const std::string& attempt_text, WorkerIdentity identity);           // its workers may come
    void dismiss(AttemptKey attempt);                                               // and may no more
    std::optional<ProcessId> holder(AttemptKey attempt, std::uint32_t rank) const;  // of the rank's place, if it runs
    void send(AttemptKey attempt, std::uint32_t rank, const worker::FromAgent& message);
    // Sends a rank its welcome, and where the worker can take it the offer of a ring in the shared memory of this
    // node's `ranks`: `terms` less the ring's number.
    void welcome(AttemptKey attempt, std::uint32_t rank, const worker::Welcome& message,
                 const std::set<std::uint32_t>& ranks, worker::ReportMemoryOffer terms);
    // What a process is told that has not the rank's place, and only reads.
    void answer_readers(Reading reading) { reading_ = std::move(reading); }
    // Returns what workers have posted in shared memory. It is taken before anything else: it was there before.
    std::vector<WorkerMessage> posted();
    void wake() { shared_.wake(); }  // after each step: ranks that wait for what was sent

  private:
    struct Session;
    using Who = std::pair<AttemptKey, std::uint32_t>;
    WorkerServer(net::Loop& loop, Enqueue enqueue) : loop_(loop), enqueue_(std::move(enqueue)) {}
    net::SocketEvents accept(std::shared_ptr<net::Socket> socket);
    void on_message(const std::shared_ptr<Session>& session, const std::string& text);
    void hello(const std::shared_ptr<Session>& session, const worker::Hello& hello);
    std::string why_not(const Session& session, const worker::Hello& hello) const;
    bool takes_place(const std::shared_ptr<Session>& session, const worker::Hello& hello, const WorkerIdentity& of);
    void release(const Session& session);
    bool current(const Session& session) const;
    void closed(Session& session);
    void beat();

    net::Loop& loop_;
    net::Loop::TimerId next_beat_ = 0;  // 0: nobody shares memory
    Enqueue enqueue_;
    Reading reading_;
    RankHolders holders_;
    std::map<std::string, WorkerIdentity> admitted_;  // by RTRAIN_ATTEMPT
    std::map<Who, std::shared_ptr<net::Socket>> sockets_;
    std::set<Who> sharing_;  // their library can use shared report memory
    SharedReports shared_;
    std::unique_ptr<net::UnixServer> server_;
};

// A directory for sockets that stays the same over restarts, short enough for a socket's path (107 bytes).
Result<std::string> socket_path(const std::string& data_dir);

}  // namespace rtrain::agent
