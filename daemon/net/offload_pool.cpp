// See offload_pool.hpp.
#include "daemon/net/offload_pool.hpp"

#include <utility>

#include "daemon/net/side_thread.hpp"

namespace rtrain::net {

void OffloadPool::add(std::function<void()> work) {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    waiting_.push_back(std::move(work));
    if (idle_ < waiting_.size() && threads_.size() < threads_max_)
        threads_.push_back(side_thread(priority_, [this] { serve(); }));
    changed_.notify_one();
}

void OffloadPool::serve() {
    std::unique_lock lock(mutex_);
    while (true) {
        ++idle_;
        changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
        --idle_;
        if (stopping_) return;
        std::function<void()> work = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        work();
        work = nullptr;  // what it captured ends outside the lock
        lock.lock();
    }
}

void OffloadPool::stop() {
    std::deque<std::function<void()>> dropped;
    std::vector<std::thread> threads;
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
        dropped.swap(waiting_);
        threads.swap(threads_);
    }
    changed_.notify_all();
    for (std::thread& thread : threads) thread.join();
}

}  // namespace rtrain::net
