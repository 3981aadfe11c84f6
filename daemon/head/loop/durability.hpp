// A part of the event loop that tells what is on disk, and runs tasks once more is. Its holder changes nothing else
// there.
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
    Durability(EventLoop& loop) : loop_(&loop) {}  // implicit: it is a part of what the loop is

    bool all_durable() const;                   // all that was decided
    void once_durable(Task task) const;         // see EventLoop::once_durable
    void once_written(Task task) const;         // see EventLoop::once_written
    void behind_commits(Task work) const;       // see EventLoop::behind_commits
    bool ended_for_good(const Run& run) const;  // it is terminal, and on disk
    Why failure() const;                        // why the head ends; empty: it goes on
    Why no_room() const;  // why no change is taken: the disk of the records is full; empty: it is not

  private:
    EventLoop* loop_;
};

}  // namespace rtrain::head
