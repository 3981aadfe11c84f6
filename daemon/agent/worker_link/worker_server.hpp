// The Unix socket for workers. Authenticates them, converts their frames to inputs, and answers to frames.
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
    std::set<std::uint32_t> ranks;  // the ranks on this node
    std::int64_t uid = -1;          // uid of its processes, beside root's and the agent's own; -1: the agent's own
    // Returns the file that stores the holder of the rank's place for the next agent; empty if it is not stored.
    std::function<std::string(std::uint32_t rank)> holder_file = {};
};

class WorkerServer {
  public:
    ~WorkerServer();
    using Enqueue = std::function<void(Input)>;
    using Reading = std::function<std::optional<worker::Welcome>(AttemptKey, std::uint32_t rank)>;
    static Result<std::unique_ptr<WorkerServer>> listen(net::Loop& loop, const std::string& path, Enqueue enqueue,
                                                        net::UnixLimits limits = {});

    // Accepts the workers of the attempt.
    void admit(const std::string& attempt_text, WorkerIdentity identity);
    void dismiss(AttemptKey attempt);  // refuses them from now on
    // Holder of the rank's place, if it runs.
    std::optional<ProcessId> holder(AttemptKey attempt, std::uint32_t rank) const;
    void send(AttemptKey attempt, std::uint32_t rank, const worker::FromAgent& message);
    // Sends a rank its welcome. If the worker supports it, adds the offer of a ring in the memory shared by this node's
    // `ranks`: `terms` without the ring's number.
    void welcome(AttemptKey attempt, std::uint32_t rank, const worker::Welcome& message,
                 const std::set<std::uint32_t>& ranks, worker::ReportMemoryOffer terms);
    // Sets the answer to a process that does not have the rank's place and only reads.
    void answer_readers(Reading reading) { reading_ = std::move(reading); }
    // Returns the messages that workers have posted in shared memory. They are handled first, since they are older than
    // the next input.
    std::vector<WorkerMessage> posted();
    void wake() { shared_.wake(); }  // after each step: wakes ranks that wait for sent messages

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
    net::Loop::TimerId next_beat_ = 0;  // 0: no rank shares memory
    Enqueue enqueue_;
    Reading reading_;
    RankHolders holders_;
    std::map<std::string, WorkerIdentity> admitted_;  // by RTRAIN_ATTEMPT
    std::map<Who, std::shared_ptr<net::Socket>> sockets_;
    std::set<Who> sharing_;  // ranks whose library can use shared report memory
    SharedReports shared_;
    std::unique_ptr<net::UnixServer> server_;
};

// Returns the path of a socket in a directory that stays the same over restarts, and is short enough for a socket's
// path (107 bytes).
Result<std::string> socket_path(const std::string& data_dir);

}  // namespace rtrain::agent
