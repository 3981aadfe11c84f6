// The wait times of a heartbeat: which are measured, and in which unit they are sent.
#include "runtime/worker/rank/wait_times.hpp"

#include <thread>

#include "tests/unit/catch.hpp"

using namespace rtrain::worker;
using namespace std::chrono_literals;

namespace {

Heartbeat heartbeat_of(const WaitTimes& times) {
    Heartbeat heartbeat;
    times.write_to(heartbeat);
    return heartbeat;
}

}  // namespace

TEST_CASE("data waits are not measured until the first one is added") {
    WaitTimes times;
    CHECK(heartbeat_of(times) == Heartbeat{.barrier_wait_ms = 0, .checkpoint_wait_ms = 0});
    times.add_data(0us);
    CHECK(heartbeat_of(times).data_wait_ms == 0);
    times.add_data(1500us);
    times.add_data(600us);
    CHECK(heartbeat_of(times).data_wait_ms == 2);
}

TEST_CASE("waits of several threads are summed by kind") {
    WaitTimes times;
    const auto add_some = [&times] {
        for (int i = 0; i < 1000; ++i) {
            times.add_data(1ms);
            times.add_barrier(2ms);
            times.add_checkpoint(3ms);
        }
    };
    std::thread other_thread(add_some);
    add_some();
    other_thread.join();
    CHECK(heartbeat_of(times) ==
          Heartbeat{.data_wait_ms = 2000, .barrier_wait_ms = 4000, .barrier_waits = 2000, .checkpoint_wait_ms = 6000});
}
