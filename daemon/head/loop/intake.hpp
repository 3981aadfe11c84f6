// A view of the event loop that accepts events and data saved beside them. It has no other access to the loop.
#pragma once

#include <functional>

#include "daemon/head/loop/pending.hpp"

namespace rtrain::head {

class EventLoop;

class Intake {
  public:
    using Answer = std::function<void(const Decision&)>;
    Intake(EventLoop& loop) : loop_(&loop) {}  // implicit, since it is a view of the loop

    // `answer` is called when the event is durable and its effects are performed.
    void take(Event event, Answer answer = {}) const;
    void save(Aside aside) const;
    void note(state::Notice notice) const;
    // Decides at the next turn of the loop if the queue is full; called for news that may wait.
    void decide_when_full() const;
    // Commits news with their numbers after a pause, in one group, and acknowledges them.
    void later_acknowledge() const;

  private:
    friend class Auditing;
    EventLoop* loop_;
};

}  // namespace rtrain::head
