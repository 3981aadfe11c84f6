// See work_thread.hpp.
#include "daemon/net/loop/work_thread.hpp"

#include <utility>

#include "daemon/net/loop/side_thread.hpp"

namespace rtrain::net {

void WorkThread::add(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    waiting_.push_back(std::move(work));
    changed_.notify_one();
}

void WorkThread::serve() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
        if (stopping_) return;
        std::function<void()> work = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        work();
        work = nullptr;  // Its captures are destroyed outside of the lock.
        lock.lock();
    }
}

void WorkThread::stop() {
    std::deque<std::function<void()>> dropped;
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
        dropped.swap(waiting_);
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

}  // namespace rtrain::net
