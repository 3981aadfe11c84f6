// Threads for work that blocks on files, apart for each place that the work may wait for (a storage path, a directory):
// what hangs at one place takes no thread from the others.
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
    // A place has at most `per_place` threads, and only one when few of `total` are left. The place "" has `per_place`
    // threads beside `total`. A thread without work ends after `idle`, but for the last one: where the system
    // has no more threads to give, that one does the work.
    struct Limits {
        std::size_t per_place = 4, total = 64;
        std::chrono::milliseconds idle{10'000};
    };
    // Throws std::system_error where the system has no thread to give: then, and not once there is work.
    explicit PlacePools(ThreadPriority priority) : PlacePools(priority, Limits()) {}
    PlacePools(ThreadPriority priority, Limits limits);
    ~PlacePools() { stop(); }
    PlacePools(const PlacePools&) = delete;
    PlacePools& operator=(const PlacePools&) = delete;

    // Work of one place begins in its order. From any thread; after `stop` it is dropped.
    void add(const std::string& place, std::function<void()> work);
    void stop();                  // drops what has not begun and waits for what has
    std::size_t threads() const;  // there are now

  private:
    struct Body;
    std::shared_ptr<Body> body_;  // shared with its threads
};

}  // namespace rtrain::net
