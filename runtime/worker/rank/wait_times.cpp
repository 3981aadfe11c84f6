#include "runtime/worker/rank/wait_times.hpp"

#include <algorithm>

namespace rtrain::worker {

void WaitTimes::add_data(std::chrono::microseconds waited) {
    std::int64_t before = data_us_;
    while (!data_us_.compare_exchange_weak(before, std::max<std::int64_t>(before, 0) + waited.count())) {}
}

void WaitTimes::add_barrier(std::chrono::microseconds waited) {
    barrier_us_.fetch_add(waited.count(), std::memory_order_relaxed);
    barriers_.fetch_add(1, std::memory_order_relaxed);
}

void WaitTimes::add_checkpoint(std::chrono::microseconds waited) {
    checkpoint_us_.fetch_add(waited.count(), std::memory_order_relaxed);
}

void WaitTimes::write_to(Heartbeat& heartbeat) const {
    const std::int64_t data_us = data_us_;
    heartbeat.data_wait_ms = data_us < 0 ? -1 : data_us / 1000;
    heartbeat.barrier_wait_ms = barrier_us_ / 1000;
    heartbeat.barrier_waits = barriers_;
    heartbeat.checkpoint_wait_ms = checkpoint_us_ / 1000;
}

}  // namespace rtrain::worker
