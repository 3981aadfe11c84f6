// Messages to workers: the welcome, answers, staging directories. Checks workers' messages.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/agent/loop/inputs.hpp"
#include "daemon/agent/performers/live_attempts.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/agent/worker_link/worker_server.hpp"
#include "daemon/net/loop/loop.hpp"

namespace rtrain::agent {

class WorkerMessages {
  public:
    WorkerMessages(net::Loop& loop, Inputs inputs, const ThisNode& node, const LiveAttempts& attempts)
        : loop_(loop), inputs_(inputs), node_(node), attempts_(attempts) {}
    Status listen();

    void admit(AttemptKey key);                              // accepts its workers from now on
    void dismiss(AttemptKey key) { server_->dismiss(key); }  // and refuses them again
    // Returns the running process that holds the rank's place; nullopt if there is none.
    std::optional<ProcessId> holder(AttemptKey key, std::uint32_t rank) const { return server_->holder(key, rank); }
    void welcome(const WelcomeWorker& out);
    void send(const ToWorker& out) { server_->send(out.attempt, out.rank, out.message); }
    void make_stage(const MakeStage& out);

    // Steps of the loop.
    std::vector<WorkerMessage> posted() { return server_->posted(); }
    void check(WorkerMessage& message) const;
    void wake() { server_->wake(); }

  private:
    std::optional<worker::Welcome> welcome_of(AttemptKey key, std::uint32_t rank) const;
    void stage_made(const MakeStage& out, const Context& context, const Result<std::string>& place);

    net::Loop& loop_;  // sockets
    const Inputs inputs_;
    const ThisNode& node_;
    const LiveAttempts& attempts_;
    std::unique_ptr<WorkerServer> server_;
};

}  // namespace rtrain::agent
