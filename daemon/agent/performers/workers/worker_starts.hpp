// Workers as processes: started, adopted after this agent's restart, signalled, asked for their stacks.
#pragma once

#include <cstdint>
#include <map>

#include "daemon/agent/delivery/log_shipper.hpp"
#include "daemon/agent/loop/inputs.hpp"
#include "daemon/agent/performers/live_attempts.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/agent/performers/workers/memory_watch.hpp"
#include "daemon/agent/performers/workers/scratch_sizes.hpp"
#include "daemon/agent/performers/workers/warm_starts.hpp"
#include "daemon/agent/performers/workers/worker_messages.hpp"
#include "daemon/agent/workers/launcher.hpp"
#include "daemon/net/loop/loop.hpp"

namespace rtrain::agent {

class WorkerStarts {
  public:
    struct Uses {
        net::Loop& loop;  // owns the watches on processes' descriptors
        Inputs inputs;
        const AgentState& state;
        const ThisNode& node;
        LiveAttempts& attempts;
        WorkerMessages& messages;
        ScratchSizes& scratch;
        MemoryWatch& memory;
        LogShipper& logs;
    };
    explicit WorkerStarts(const Uses& uses);

    void start(const StartWorkers& out);
    // Adopts the workers of an attempt from before a restart. They may connect again, and their ends are reported.
    // Returns rank and pid of the workers that were started.
    std::map<std::uint32_t, std::int64_t> adopt(AttemptKey key);
    void signal(const SignalWorker& out);
    void dump_stacks(const DumpStacks& out);
    void look_at_memory();  // called with each heartbeat
    void start_template(const StartTemplate& out) { warm_.start_template(out); }
    void end_template(const EndTemplate& out) { warm_.end_template(out); }
    void end_all();  // ends the workers of all attempts, since no later agent will adopt them

  private:
    WorkerEvents events();
    void limit_group(const LiveAttempt& attempt);
    Status start_one(const LiveAttempt& attempt, const protocol::LaunchWorker& worker);

    Uses uses_;
    Launcher launcher_;
    WarmStarts warm_;
};

}  // namespace rtrain::agent
