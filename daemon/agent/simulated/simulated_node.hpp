// A node that is not there: the agent's machine as it is, with workers that only "run" for a seeded time and exit with
// 0. Pure, like the machine: no I/O, clock or chance. Nothing is claimed, staged or written: what a real agent would
// ask its disk is answered at once. simulation.cpp gives a head two thousand of them.
//
//   input (head said, time passed) ─► machine ─► outputs ─► messages for the head, and inputs that come later
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/agent/machine/machine.hpp"

namespace rtrain::agent {

inline constexpr const char* simulated_label = "simulated";  // =true on every such node: nobody takes it for a real one

inline constexpr std::int64_t simulated_memory_bytes = 64LL << 30;

struct SimulatedWork {
    std::uint64_t seed = 1;
    std::int64_t run_ms = 5'000;  // on average; an attempt takes between a half and one and a half of it
    std::int64_t wall_minus_now_ms = 0;
};

// What the node wants of the world now.
struct SimulatedDeeds {
    std::vector<protocol::FromAgent> to_head;
    std::string close;  // not empty: the head refused the node, and why
};

class SimulatedNode {
  public:
    // `inventory` is what the node registers with; it gets the label.
    SimulatedNode(std::string name, protocol::Register inventory, SimulatedWork work);

    SimulatedDeeds connected(Time now);
    SimulatedDeeds disconnected(Time now);
    SimulatedDeeds on_message(Time now, protocol::FromHead message);
    SimulatedDeeds wake(Time now);  // what was due by now
    std::optional<Time> next_wake() const;

    const std::string& name() const { return state_.node; }
    bool registered() const { return state_.registered; }
    std::uint64_t workers_ended() const { return workers_ended_; }

  private:
    struct Carry;  // one function per kind of output
    void input(Time now, Input what, SimulatedDeeds& deeds);
    void start_workers(Time now, const protocol::Launch& launch);
    void end_worker(Time now, AttemptKey attempt, std::uint32_t rank, std::int32_t signal);
    std::int64_t run_ms(AttemptKey attempt) const;

    AgentState state_;
    SimulatedWork work_;
    std::deque<Input> now_;             // what outputs brought about at once
    std::multimap<Time, Input> later_;  // ends of workers
    std::int64_t next_pid_ = 1'000;
    std::uint64_t workers_ended_ = 0;
};

}  // namespace rtrain::agent
