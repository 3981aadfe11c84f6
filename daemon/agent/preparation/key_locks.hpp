// Locks by key for work on several threads. Work with one key runs on one thread at a time; work with different keys
// runs concurrently.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace rtrain::agent {

class KeyLocks {
  public:
    class Held {
      public:
        Held(KeyLocks& locks, std::string key) : locks_(locks), key_(std::move(key)) {}
        ~Held() {
            const std::lock_guard lock(locks_.guard_);
            locks_.keys_.erase(key_);
            locks_.freed_.notify_all();
        }
        Held(const Held&) = delete;
        Held& operator=(const Held&) = delete;

      private:
        KeyLocks& locks_;
        const std::string key_;
    };

    // Waits while another thread holds the key. Null: the work was cancelled meanwhile.
    std::unique_ptr<Held> hold(const std::string& key, const std::atomic<bool>& cancelled) {
        constexpr std::chrono::milliseconds look_if_cancelled(200);
        std::unique_lock lock(guard_);
        while (!cancelled && keys_.contains(key)) freed_.wait_for(lock, look_if_cancelled);
        if (cancelled) return nullptr;
        keys_.insert(key);
        return std::make_unique<Held>(*this, key);
    }
    std::unique_ptr<Held> hold(const std::string& key) {
        const std::atomic<bool> never = false;
        return hold(key, never);
    }

  private:
    std::mutex guard_;
    std::condition_variable freed_;
    std::set<std::string> keys_;
};

}  // namespace rtrain::agent
