// One thread for work that blocks, in order of arrival. The destructor drops work that has not begun and waits for the
// rest.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "daemon/net/loop/side_thread.hpp"

namespace rtrain::net {

class WorkThread {
  public:
    // Throws std::system_error if the system has no thread to give: at once, not later when there is work.
    explicit WorkThread(ThreadPriority priority) : thread_(side_thread(priority, [this] { serve(); })) {}
    ~WorkThread() { stop(); }
    WorkThread(const WorkThread&) = delete;
    WorkThread& operator=(const WorkThread&) = delete;

    void add(std::function<void()> work);
    void stop();

  private:
    void serve();

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> waiting_;
    bool stopping_ = false;
    std::thread thread_;  // the last member: the thread uses the others
};

}  // namespace rtrain::net
