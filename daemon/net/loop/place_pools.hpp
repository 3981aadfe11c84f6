// Threads for work that blocks on files, separated by the place that the work may wait for (a storage path, a
// directory). A place that hangs takes no thread from other places.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "daemon/net/loop/side_thread.hpp"

namespace rtrain::net {

class PlacePools {
  public:
    // A place has at most `per_place` threads, and only one if few of `total` are unused. The place "" has `per_place`
    // threads in addition to `total`. A thread without work ends after `idle`. The last one stays, because the system
    // may have no further thread to give.
    struct Limits {
        std::size_t per_place = 4, total = 64;
        std::chrono::milliseconds idle{10'000};
    };
    // Throws std::system_error if the system has no thread to give: at once, not later when there is work.
    explicit PlacePools(ThreadPriority priority) : PlacePools(priority, Limits()) {}
    PlacePools(ThreadPriority priority, Limits limits);
    ~PlacePools() { stop(); }
    PlacePools(const PlacePools&) = delete;
    PlacePools& operator=(const PlacePools&) = delete;

    // Work of one place starts in order. Callable from any thread. Dropped after `stop`.
    void add(const std::string& place, std::function<void()> work);
    void stop();                  // drops work that has not begun, and waits for the rest
    std::size_t threads() const;  // there are now

  private:
    struct Body;
    std::shared_ptr<Body> body_;  // shared with its threads
};

}  // namespace rtrain::net
