// The loop over one io_context. Timers, watches and signals are in maps, so that cancelling is safe at any moment: a
// completion whose entry is gone does nothing.
#include "daemon/net/loop/loop.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstdio>
#include <ctime>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "daemon/net/loop/asio.hpp"
#include "daemon/net/loop/place_pools.hpp"
#include "daemon/net/loop/posted.hpp"

namespace rtrain::net {
namespace {

using Executor = asio::io_context::executor_type;
using Descriptor = asio::posix::basic_stream_descriptor<Executor>;
using Signals = asio::basic_signal_set<Executor>;

// A pidfd stays readable after its process has ended. Reporting that repeatedly would spin.
bool is_pidfd(int descriptor) {
    char target[64] = {};
    std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    ssize_t size = readlink(link.c_str(), target, sizeof target - 1);
    return size > 0 && std::string(target).find("pidfd") != std::string::npos;
}

thread_local std::int64_t running_since_us = 0;  // see posted.hpp

std::int64_t monotonic_us() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

std::int64_t thread_cpu_us() {
    timespec spent{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return static_cast<std::int64_t>(spent.tv_sec) * 1'000'000 + spent.tv_nsec / 1'000;
}

// Keeps the longest task of this minute and of the one before, so that each of several readers sees a long task.
class LongestTasks {
  public:
    void begin() {
        begun_us_ = monotonic_us();
        begun_cpu_us_ = thread_cpu_us();
    }
    void end() {
        const std::int64_t now_us = monotonic_us();
        move_on(now_us);
        raise(newest_, {.wall_us = now_us - begun_us_, .cpu_us = thread_cpu_us() - begun_cpu_us_});
    }
    Loop::LongestTask longest() {
        move_on(monotonic_us());
        Loop::LongestTask both = newest_;
        raise(both, before_);
        return both;
    }

  private:
    static constexpr std::int64_t span_us = 60'000'000;
    static void raise(Loop::LongestTask& to, const Loop::LongestTask& by) {
        to.wall_us = std::max(to.wall_us, by.wall_us);
        to.cpu_us = std::max(to.cpu_us, by.cpu_us);
    }
    void move_on(std::int64_t now_us) {
        const std::int64_t passed_us = now_us - since_us_;
        if (passed_us < span_us) return;
        before_ = passed_us < 2 * span_us ? newest_ : Loop::LongestTask{};
        newest_ = {};
        since_us_ = now_us;
    }
    std::int64_t begun_us_ = 0, begun_cpu_us_ = 0, since_us_ = monotonic_us();
    Loop::LongestTask newest_, before_;
};

struct Watch {
    Watch(asio::io_context& io, int descriptor, Loop::Task task)
        : stream(io, descriptor), ready(std::move(task)), once(is_pidfd(descriptor)) {}
    ~Watch() { stream.release(); }
    Descriptor stream;
    Loop::Task ready;
    const bool once;
};

}  // namespace

struct Loop::Body {
    asio::io_context io{1};
    std::map<TimerId, std::shared_ptr<Timer>> timers;
    std::map<int, std::shared_ptr<Watch>> watches;
    std::map<int, std::pair<std::shared_ptr<Signals>, Task>> signals;
    TimerId last_timer = 0;
    PlacePools pools{ThreadPriority::normal};
    std::vector<Task> following;  // tasks that run right after the present one
    bool in_task = false;
    LongestTasks longest;

    void run(const Task& task) {
        in_task = true;
        longest.begin();
        task();
        while (!following.empty())
            for (const Task& following_task : std::exchange(following, {})) following_task();
        longest.end();
        in_task = false;
    }
    void arm(int descriptor, const std::shared_ptr<Watch>& watch) {
        watch->stream.async_wait(Descriptor::wait_read,
                                 [this, descriptor, weak = std::weak_ptr<Watch>(watch)](error_code error) {
                                     if (std::shared_ptr<Watch> watch = weak.lock(); watch && !error)
                                         readable(descriptor, watch);
                                 });
    }
    bool current(int descriptor, const std::shared_ptr<Watch>& watch) const {
        auto at = watches.find(descriptor);
        return at != watches.end() && at->second == watch;
    }
    void readable(int descriptor, const std::shared_ptr<Watch>& watch) {
        if (!current(descriptor, watch)) return;
        run(watch->ready);
        if (!watch->once && current(descriptor, watch)) arm(descriptor, watch);
    }
    void arm(int signal, const std::shared_ptr<Signals>& set) {
        set->async_wait([this, signal, set](error_code error, int) {
            auto at = signals.find(signal);
            if (error || at == signals.end() || at->second.first != set) return;
            arm(signal, set);
            Task task = at->second.second;
            run(task);
        });
    }
};

Error thrown(const std::exception& wrong, const std::string& doing) {
    return {ErrorCode::internal, doing + " failed in a way that nobody had thought of: " + wrong.what(),
            "this is a bug of rtrain: please report it, with what was asked and the daemon's log"};
}

Loop::Loop() : body_(std::make_unique<Body>()) {}

Loop::~Loop() {
    body_->pools.stop();
    body_->signals.clear();
    body_->watches.clear();
    body_->timers.clear();
}

void Loop::run() {
    body_->io.restart();
    auto open = asio::make_work_guard(body_->io);
    body_->io.run();
}

void Loop::stop() { body_->io.stop(); }

void Loop::post(Task task) {
    asio::post(body_->io, [body = body_.get(), task = std::move(task), at = monotonic_us()] {
        running_since_us = at;
        body->run(task);
        running_since_us = 0;
    });
}

void Loop::next(Task task) {
    if (!body_->in_task) return post(std::move(task));
    body_->following.push_back(std::move(task));
}

std::int64_t posted_us() { return running_since_us; }

Loop::TimerId Loop::after(std::int64_t delay_ms, Task task) {
    TimerId id = ++body_->last_timer;
    auto timer = std::make_shared<Timer>(body_->io, std::chrono::milliseconds(delay_ms < 0 ? 0 : delay_ms));
    body_->timers.emplace(id, timer);
    timer->async_wait([body = body_.get(), id, task = std::move(task)](error_code) {
        if (body->timers.erase(id) == 1) body->run(task);
    });
    return id;
}

void Loop::cancel(TimerId timer) { body_->timers.erase(timer); }

void Loop::watch_readable(int descriptor, Task ready) {
    RTRAIN_CHECK(descriptor >= 0 && !body_->watches.contains(descriptor), "descriptor " + std::to_string(descriptor));
    auto watch = std::make_shared<Watch>(body_->io, descriptor, std::move(ready));
    body_->watches.emplace(descriptor, watch);
    body_->arm(descriptor, watch);
}

void Loop::unwatch(int descriptor) { body_->watches.erase(descriptor); }

void Loop::on_signal(int signal, Task task) {
    auto set = std::make_shared<Signals>(body_->io, signal);
    body_->signals[signal] = {set, std::move(task)};
    body_->arm(signal, set);
}

void Loop::offload(Task work, Task done) { offload_at("", std::move(work), std::move(done)); }

void Loop::offload_at(const std::string& place, Task work, Task done) {
    body_->pools.add(place, [body = body_.get(), work = std::move(work), done = std::move(done)]() mutable {
        try {
            work();
        } catch (const std::exception& wrong) {
            std::fprintf(stderr, "rtrain: %s\n", thrown(wrong, "background work").message.c_str());
        }
        asio::post(body->io, [body, done = std::move(done)] { body->run(done); });
    });
}

Loop::LongestTask Loop::longest_task() const { return body_->longest.longest(); }

void* Loop::io_context() { return &body_->io; }

}  // namespace rtrain::net
