// A restricted view of the event loop. It shows what is durable, and runs tasks as soon as more is durable.
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
    Durability(EventLoop& loop) : loop_(&loop) {}  // implicit, so that an EventLoop can be passed as a Durability

    bool all_durable() const;                   // true if all decisions so far are durable
    void once_durable(Task task) const;         // calls EventLoop::once_durable
    void once_written(Task task) const;         // calls EventLoop::once_written
    void behind_commits(Task work) const;       // calls EventLoop::behind_commits
    bool ended_for_good(const Run& run) const;  // true if the run is terminal, and that is durable
    Why failure() const;                        // the error for which the head ends; empty: it does not end
    // why no change is accepted, namely that the disk of the records is full; empty: changes are accepted
    Why no_room() const;

  private:
    EventLoop* loop_;
};

}  // namespace rtrain::head
