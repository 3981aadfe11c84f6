// Threads for work that blocks. They start when there is work, up to a few; the destructor drops what has not begun and
// waits for what has.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "daemon/net/side_thread.hpp"

namespace rtrain::net {

class OffloadPool {
  public:
    OffloadPool(std::size_t threads_max, ThreadPriority priority) : threads_max_(threads_max), priority_(priority) {}
    ~OffloadPool() { stop(); }
    OffloadPool(const OffloadPool&) = delete;
    OffloadPool& operator=(const OffloadPool&) = delete;

    void add(std::function<void()> work);
    void stop();

  private:
    void serve();

    const std::size_t threads_max_;
    const ThreadPriority priority_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> waiting_;
    std::vector<std::thread> threads_;
    std::size_t idle_ = 0;
    bool stopping_ = false;
};

}  // namespace rtrain::net
