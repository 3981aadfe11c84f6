// The loop of an agent, in the order in which it happens:
//   enqueue an input ─► step (the machine) ─► perform each output, in order ─► wake the workers that wait
// What an output brings about comes back as an input, which waits until the step before it is performed. Only a step
// changes the state: all other parts read it.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "daemon/agent/loop/inputs.hpp"
#include "daemon/agent/machine/machine.hpp"
#include "daemon/net/loop/loop.hpp"

namespace rtrain::agent {

class AgentLoop {
  public:
    // The functions that the other parts of the agent run at each step, in the order of the steps.
    struct Steps {
        // Returns what workers have posted in shared memory. It was there before the input that is taken next.
        std::function<std::vector<WorkerMessage>()> posted;
        // Takes out of a worker's message what the machine must not believe.
        std::function<void(WorkerMessage&)> check;
        // Carries out one output.
        std::function<void(Output)> perform;
        // All outputs of the step are out: the workers that wait for one of them are woken.
        std::function<void()> wake;
    };

    void connect(Steps steps) { steps_ = std::move(steps); }     // before the first input
    void begin(AgentState state) { state_ = std::move(state); }  // before the first input
    const AgentState& state() const { return state_; }           // changed by steps alone
    net::Loop& net() { return net_; }

    void enqueue(Input input);        // on the loop's thread; the step is performed when this returns, or soon after
    void enqueue_later(Input input);  // from any thread

  private:
    void take(Input input);
    void set_timer();

    net::Loop net_;
    Steps steps_;
    AgentState state_;
    std::deque<Input> inputs_;
    bool stepping_ = false;
    net::Loop::TimerId timer_ = 0;
    Time timer_at_;
};

}  // namespace rtrain::agent
