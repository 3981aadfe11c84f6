// Asks the machine's cloud each 5 s whether it takes the machine away, and has the node drained then.
#pragma once

#include "daemon/agent/cloud/notices.hpp"
#include "daemon/agent/loop/agent_loop.hpp"

namespace rtrain::agent {

class CloudWatch {
  public:
    explicit CloudWatch(AgentLoop& loop) : loop_(loop) {}
    void begin();  // nothing, where the firmware names no cloud that gives notice

  private:
    void look();
    void answered(const std::optional<CloudNotice>& notice);

    AgentLoop& loop_;
    Cloud cloud_ = Cloud::none;
};

}  // namespace rtrain::agent
