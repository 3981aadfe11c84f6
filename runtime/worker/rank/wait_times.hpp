// The times that a worker has waited since its start. Each heartbeat contains them.
// Invariant: each value only grows. Any thread adds and reads without a lock.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "runtime/worker/frames/frames.hpp"

namespace rtrain::worker {

class WaitTimes {
  public:
    void add_data(std::chrono::microseconds waited);
    void add_barrier(std::chrono::microseconds waited);  // one call for each wait
    void add_checkpoint(std::chrono::microseconds waited);
    void write_to(Heartbeat& heartbeat) const;

  private:
    std::atomic<std::int64_t> data_us_{-1};  // -1: it is not measured
    std::atomic<std::int64_t> barrier_us_{0}, checkpoint_us_{0};
    std::atomic<std::uint64_t> barriers_{0};
};

}  // namespace rtrain::worker
