// A simulated node: the real agent machine over a simulated disk, network and processes. Its agent can die between any
// two outputs. Its processes go on until the node itself reboots; their shims write the exit files.
#pragma once

#include <deque>

#include "daemon/agent/machine/machine.hpp"
#include "tests/sim/world.hpp"

namespace rtrain::sim {

using ProcessKey = std::pair<agent::AttemptKey, std::uint32_t>;

class SimNode {
  public:
    SimNode(World& world, std::string name);

    void start_agent();
    void crash_agent(const std::string& why);
    void reclaim(std::int64_t grace_ms);     // Sends SIGTERM to an agent that drains.
    void end_agent(const std::string& why);  // Called after a drain. No worker may be left.
    bool machine_up() const { return machine_up_; }
    void reboot();
    bool up() const { return up_; }
    bool quiet() const;
    std::string describe() const;  // Describes what the node still has, for the trace of a violation.
    bool connected() const { return up_ && connection_ != 0; }

    void opened(std::uint64_t connection);
    void closed(std::uint64_t connection);
    void heard(std::uint64_t connection, const protocol::FromHead& message);
    void from_group(agent::AttemptKey key, const std::string& from, const protocol::GroupMessage& message);
    void group_cut(agent::AttemptKey key, const std::string& from);
    bool accepts_group() const;
    bool kill_some_process(std::int32_t signal);
    bool stores_well(agent::AttemptKey key, const std::string& coordinator) const;
    void drop_groups();

  private:
    struct Process {
        std::int64_t pid = 0;
        std::uint64_t run = 0, step = 0, steps = 0, checkpoint_every = 1, next_index = 1;
        std::string checkpoint_name{};
        std::uint32_t world_size = 1;
        bool alive = true, waits = false, stubborn = false;
        bool returns_early = false;  // True if the rank ends after its first report, although other ranks report again.
        std::uint64_t newest_sent = 0;  // the newest report that any agent received from the rank
        // Reports that passed while the agent was away, and that no agent has received yet
        std::deque<worker::Report> kept{};
    };
    struct Ended {
        ExitCause cause;
        std::int64_t wall_us = 0;
    };
    struct Disk {
        std::map<agent::AttemptKey, agent::SavedAttempt> images;
        std::map<ProcessKey, std::int64_t> started;
        std::map<ProcessKey, Ended> ended;
        std::map<std::uint64_t, protocol::News> outbox;
        std::uint64_t next_news = 1;
    };
    friend struct Carry;  // It performs the outputs of the machine (node_outputs.cpp).

    void input(const agent::Input& input);
    void arm_timer();
    void dial();
    void later(std::int64_t ms, std::function<void()> what);  // Calls `what` unless the agent has died meanwhile.
    void find_attempts();
    void note_request(const agent::Input& what);
    void prepared(const protocol::Prepare& order);
    void template_ends(const std::string& key, const std::string& unfit, const std::string& failed = "");
    void check_templates() const;  // Checks that the machine lists the templates that exist, within their bounds.
    void spawn(const protocol::Launch& launch, const protocol::LaunchWorker& worker);
    void live(ProcessKey key);
    void join(ProcessKey key);
    void report(ProcessKey key);
    void answered(ProcessKey key, std::uint64_t index);
    worker::Report report_of(ProcessKey key) const;
    void pass_without_agent(agent::AttemptKey key);
    void passed(ProcessKey key);
    void end_well(ProcessKey key);
    void end_process(ProcessKey key, ExitCause cause);
    void upload_begins(const agent::Upload& order, std::int64_t ms);
    void upload_ends(const agent::Upload& order);
    bool waited_for(agent::AttemptKey key) const;  // True if the head waits for this node to be empty of the attempt.
    bool leaves_its_part(agent::AttemptKey key) const;
    void dial_coordinator(agent::AttemptKey key, const std::string& peer);
    void close_group(agent::AttemptKey key);
    void send_group(agent::AttemptKey key, const std::string& to, const protocol::GroupMessage& message);

    World& world_;
    std::string name_;
    Disk disk_;
    bool up_ = false, machine_up_ = true;
    std::uint64_t life_ = 0, timer_ = 0, boot_ = 0, connection_ = 0;
    agent::AgentState state_;
    std::map<ProcessKey, Process> processes_;
    std::map<std::pair<agent::AttemptKey, std::string>, Time>
        group_links_;  // by open link, the time at which the last message arrives
    std::map<std::pair<agent::AttemptKey, std::string>, Time> linked_since_;
    std::set<std::string> templates_;  // the keepers' processes
    Dice template_dice_;               // Dice of their own, so that templates do not change the other events of a seed.
    struct Uploading {
        std::uint64_t index = 0;
        Time moved;
    };
    std::map<agent::AttemptKey, Uploading> uploading_;
    // The number of the last report of which this node's part is stored
    std::map<agent::AttemptKey, std::uint64_t> stored_;
    std::map<agent::AttemptKey, Time> cut_since_;  // since when the link to the coordinator is cut
};

}  // namespace rtrain::sim
