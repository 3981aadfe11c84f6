// Asks the machine's cloud each 5 s whether it takes the machine away, and has the node drained then.
#pragma once

#include "daemon/agent/cloud/notices.hpp"
#include "daemon/agent/loop/inputs.hpp"
#include "daemon/agent/machine/machine.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

class CloudWatch {
  public:
    CloudWatch(net::Background background, Inputs inputs, const AgentState& state)
        : background_(background), inputs_(inputs), state_(state) {}
    void begin();  // does nothing unless the firmware names a cloud that sends notices

  private:
    void look();
    void answered(const std::optional<CloudNotice>& notice);

    const net::Background background_;
    const Inputs inputs_;
    const AgentState& state_;
    Cloud cloud_ = Cloud::none;
};

}  // namespace rtrain::agent
