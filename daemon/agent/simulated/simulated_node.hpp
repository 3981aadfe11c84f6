// A simulated node: the agent's machine, with workers that only "run" for a random time and exit with 0. Pure, like the
// machine: no I/O, clock or randomness beside the seed. Nothing is claimed, staged or written: requests to the disk are
// answered at once. simulation.cpp simulates thousands of such nodes.
//
//   input (head's message, time passed) ─► machine ─► outputs ─► messages for the head, and later inputs
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/agent/machine/machine.hpp"

namespace rtrain::agent {

// =true on every simulated node, so that it is not mistaken for a real one.
inline constexpr const char* simulated_label = "simulated";

inline constexpr std::int64_t simulated_memory_bytes = 64LL << 30;

struct SimulatedWork {
    std::uint64_t seed = 1;
    std::int64_t run_ms = 5'000;  // on average; an attempt takes between 0.5 and 1.5 times as long
    std::int64_t wall_minus_now_ms = 0;
};

// The actions that the node requests.
struct SimulatedDeeds {
    std::vector<protocol::FromAgent> to_head;
    std::string close;  // not empty: the head refused the node, with this reason
};

class SimulatedNode {
  public:
    // `inventory` is the node's registration; the label is added to it.
    SimulatedNode(std::string name, protocol::Register inventory, SimulatedWork work);

    SimulatedDeeds connected(Time now);
    SimulatedDeeds disconnected(Time now);
    SimulatedDeeds on_message(Time now, protocol::FromHead message);
    SimulatedDeeds wake(Time now);  // handles all that is due by now
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
    std::deque<Input> now_;             // immediate effects of outputs
    std::multimap<Time, Input> later_;  // ends of workers
    std::int64_t next_pid_ = 1'000;
    std::uint64_t workers_ended_ = 0;
};

}  // namespace rtrain::agent
