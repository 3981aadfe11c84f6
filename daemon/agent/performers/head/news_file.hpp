// News are written to disk before they are sent, and stay there until the head acknowledges them.
#pragma once

#include "daemon/agent/disk/node_files.hpp"
#include "daemon/agent/machine/machine.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

class NewsFile {
  public:
    NewsFile(net::Background background, Outbox outbox) : background_(background), outbox_(std::move(outbox)) {}
    void fill(AgentState& state) const;  // adds the news that an earlier agent stored

    void keep(const KeepNews& out);
    void drop(const DropNews& out);

  private:
    void mend_later();

    const net::Background background_;
    Outbox outbox_;
};

}  // namespace rtrain::agent
