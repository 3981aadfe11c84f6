// A view of the event loop that reports what is durable, and runs tasks once more is. It has no other access to the
// loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "base/result.hpp"
#include "scheduler/model/records.hpp"

namespace rtrain::head {

class EventLoop;

class Durability {
  public:
    using Task = std::function<void()>;
    using Why = std::shared_ptr<const std::optional<Error>>;
    Durability(EventLoop& loop) : loop_(&loop) {}  // implicit, since it is a view of the loop

    bool all_durable() const;                   // all decisions so far
    void once_durable(Task task) const;         // see EventLoop::once_durable
    void once_written(Task task) const;         // see EventLoop::once_written
    void behind_commits(Task work) const;       // see EventLoop::behind_commits
    bool ended_for_good(const Run& run) const;  // it is terminal, and durable
    Why failure() const;                        // why the head ends; empty if it does not
    Why no_room() const;  // why no change is accepted: the disk of the records is full; empty if it is not

  private:
    EventLoop* loop_;
};

}  // namespace rtrain::head
