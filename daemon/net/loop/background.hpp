// The part of a loop that most of its users need: work on its pool, and tasks and timers on its own thread. It cannot
// run or stop the loop, or watch descriptors and signals.
#pragma once

#include <string>
#include <utility>

#include "daemon/net/loop/loop.hpp"

namespace rtrain::net {

class Background {
  public:
    Background(Loop& loop) : loop_(&loop) {}  // implicit: a Background is a part of the loop's interface

    void post(Loop::Task task) const { loop_->post(std::move(task)); }
    Loop::TimerId after(std::int64_t delay_ms, Loop::Task task) const {
        return loop_->after(delay_ms, std::move(task));
    }
    void cancel(Loop::TimerId timer) const { loop_->cancel(timer); }
    void offload(Loop::Task work, Loop::Task done) const { loop_->offload(std::move(work), std::move(done)); }
    void offload_at(const std::string& place, Loop::Task work, Loop::Task done) const {
        loop_->offload_at(place, std::move(work), std::move(done));
    }
    template <class Work, class Failed, class Then>
    void offload(Work work, Failed failed, Then then) const {
        loop_->offload(std::move(work), std::move(failed), std::move(then));
    }
    template <class Work, class Failed, class Then>
    void offload_at(const std::string& place, Work work, Failed failed, Then then) const {
        loop_->offload_at(place, std::move(work), std::move(failed), std::move(then));
    }

  private:
    Loop* loop_;
};

}  // namespace rtrain::net
