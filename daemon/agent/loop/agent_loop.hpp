// The loop of an agent. Each input takes these steps, in order:
//  enqueue an input ─► step (the machine) ─► perform each output, in order ─► wake the workers that wait
// The effects of an output are new inputs, which wait until all outputs of the step are performed. Only a step changes
// the state; all other parts read it.
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
        // Returns the messages that workers have posted in shared memory. They are older than the next input.
        std::function<std::vector<WorkerMessage>()> posted;
        // Removes the parts of a worker's message that the machine must not rely on.
        std::function<void(WorkerMessage&)> check;
        // Carries out one output.
        std::function<void(Output)> perform;
        // Wakes the workers that wait for an output, after all outputs of the step.
        std::function<void()> wake;
    };

    void connect(Steps steps) { steps_ = std::move(steps); }     // before the first input
    void begin(AgentState state) { state_ = std::move(state); }  // before the first input
    const AgentState& state() const { return state_; }           // only steps change it
    net::Loop& net() { return net_; }

    void enqueue(Input input);        // on the loop's thread; the step is performed at return, or soon after
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
