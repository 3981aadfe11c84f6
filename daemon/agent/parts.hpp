// The parts of the agent and their connections: which parts each part uses, what it does at each step of the loop, and
// which part performs which output (outputs.cpp).
#pragma once

#include <functional>

#include "daemon/agent/adoption.hpp"
#include "daemon/agent/loop/agent_loop.hpp"
#include "daemon/agent/performers/head/certificate_renewal.hpp"
#include "daemon/agent/performers/head/cloud_watch.hpp"
#include "daemon/agent/performers/head/head_link.hpp"
#include "daemon/agent/performers/head/heartbeats.hpp"
#include "daemon/agent/performers/head/news_file.hpp"
#include "daemon/agent/performers/peers/peer_links.hpp"
#include "daemon/agent/performers/storage/attempt_ends.hpp"
#include "daemon/agent/performers/storage/preparations.hpp"
#include "daemon/agent/performers/storage/run_files.hpp"
#include "daemon/agent/performers/storage/saved_attempts.hpp"

namespace rtrain::agent {

class Agent {
  public:
    Agent(DirectoryLock lock, ThisNode node, Outbox outbox);
    Status open();  // listens, and adopts the attempts of the agent before the restart
    // Runs until SIGTERM or SIGINT. The functions are those of run_agent().
    Status serve(const std::function<Status()>& serves, const std::function<void(bool)>& registered);

  private:
    void connect();                       // sets what each part does at each step of the loop
    void perform(Output output);          // outputs.cpp
    void close(const CloseAttempt& out);  // outputs.cpp
    void end(const EndAgent& out);        // outputs.cpp
    void on_order(protocol::FromHead message);
    void on_end_signal();
    void announce(bool registered);  // Only the first call has an effect.
    void remove_short_places();

    // The members are constructed in this order, and destroyed in the opposite one.
    DirectoryLock lock_;
    ThisNode node_;
    AgentLoop loop_;
    LiveAttempts attempts_;
    // ---- to the head, to other agents
    NewsFile news_;
    HeadLink head_;
    Heartbeats heartbeats_;
    CloudWatch cloud_;
    PeerLinks peers_;
    CertificateRenewal renewal_;
    // ---- to workers
    WorkerMessages messages_;
    ScratchSizes scratch_;
    MemoryWatch memory_;
    LogShipper logs_;  // workers' logs, sent to the head
    WorkerStarts workers_;
    // ---- to storage
    SavedAttempts saved_;
    MetricsJournals journals_;
    Checkpoints checkpoints_;
    PendingDeliveries pending_;
    AttemptEnds ends_;
    RunFiles run_files_;
    Preparations preparations_;

    std::function<void(bool)> registered_;  // null after its call
    bool end_workers_ = false;              // at the end of this agent
    bool drains_ = false;                   // A SIGTERM was received.
};

}  // namespace rtrain::agent
