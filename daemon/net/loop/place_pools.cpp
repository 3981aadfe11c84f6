// See place_pools.hpp.
#include "daemon/net/loop/place_pools.hpp"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

namespace rtrain::net {
namespace {

// A place gets its second thread while 8 are unused, its third while 16 are, and so on.
constexpr std::size_t more_needs = 8;

}  // namespace

struct PlacePools::Body : std::enable_shared_from_this<PlacePools::Body> {
    struct Place {
        std::deque<std::function<void()>> waiting;
        std::size_t running = 0;  // number of threads that run its work
    };
    using Places = std::map<std::string, Place>;
    struct Ready {
        Places::iterator place;
        std::function<void()> work;
    };

    Body(ThreadPriority of_threads, Limits given) : priority(of_threads), limits(given) {}
    const ThreadPriority priority;
    const Limits limits;
    mutable std::mutex mutex;
    std::condition_variable changed, ended;
    Places places;            // places with work
    std::deque<Ready> ready;  // work that has a thread and may begin
    std::string next_place;   // where the search for waiting work begins
    std::size_t busy = 0;     // number of the `total` threads in use
    std::size_t idle = 0, threads = 0;
    bool stopping = false;

    bool may_begin(const Places::iterator& at) const {
        const std::size_t running = at->second.running, left = limits.total - busy;
        if (at->second.waiting.empty() || running >= limits.per_place) return false;
        if (at->first.empty()) return true;
        return left > 0 && (running == 0 || running * more_needs < left);
    }
    void make_ready(const Places::iterator& at) {
        ready.push_back({at, std::move(at->second.waiting.front())});
        at->second.waiting.pop_front();
        ++at->second.running;
        if (!at->first.empty()) ++busy;
        if (ready.size() <= idle || !start_thread()) changed.notify_one();
    }
    // Starts a thread. Returns false if the system has no further thread; then the present ones do the work in turn.
    bool start_thread() {
        try {
            side_thread(priority, [self = shared_from_this()] { self->serve(); }).detach();
        } catch (const std::system_error&) {
            if (threads == 0) throw;
            return false;
        }
        ++threads;
        ++idle;
        return true;
    }
    // Alternates between the places, so that a place with much work does not delay the others.
    void make_ready_what_may() {
        auto at = places.lower_bound(next_place);
        for (std::size_t looked_at = 0; looked_at < places.size(); ++looked_at) {
            if (at == places.end()) at = places.begin();
            const auto here = at++;
            if (!may_begin(here)) continue;
            next_place = at == places.end() ? "" : at->first;
            make_ready(here);
            looked_at = 0;
        }
    }
    void serve() {
        std::unique_lock lock(mutex);
        while (true) {
            const bool woken = changed.wait_for(lock, limits.idle, [this] { return stopping || !ready.empty(); });
            // The last thread stays, because the system may have no other one to give.
            if (!woken && threads == 1) continue;
            --idle;
            if (stopping || !woken) break;
            Ready next = std::move(ready.front());
            ready.pop_front();
            lock.unlock();
            next.work();
            next.work = nullptr;  // Its captures are destroyed outside of the lock.
            lock.lock();
            --next.place->second.running;
            if (!next.place->first.empty()) --busy;
            if (next.place->second.running == 0 && next.place->second.waiting.empty()) places.erase(next.place);
            ++idle;
            if (!stopping) make_ready_what_may();
        }
        --threads;
        ended.notify_all();
    }
};

PlacePools::PlacePools(ThreadPriority priority, Limits limits) : body_(std::make_shared<Body>(priority, limits)) {
    const std::lock_guard lock(body_->mutex);
    body_->start_thread();
}

void PlacePools::add(const std::string& place, std::function<void()> work) {
    const std::lock_guard lock(body_->mutex);
    if (body_->stopping) return;
    const auto at = body_->places.try_emplace(place).first;
    at->second.waiting.push_back(std::move(work));
    if (body_->may_begin(at)) body_->make_ready(at);
}

void PlacePools::stop() {
    std::deque<Body::Ready> dropped;
    std::map<std::string, Body::Place> places;  // Their captures are destroyed outside of the lock.
    std::unique_lock lock(body_->mutex);
    body_->stopping = true;
    dropped.swap(body_->ready);
    body_->changed.notify_all();
    body_->ended.wait(lock, [this] { return body_->threads == 0; });
    places.swap(body_->places);
    lock.unlock();
}

std::size_t PlacePools::threads() const {
    const std::lock_guard lock(body_->mutex);
    return body_->threads;
}

}  // namespace rtrain::net
