// A restricted view of the event loop. It accepts events, and data that is saved beside them.
#pragma once

#include <functional>

#include "daemon/head/loop/pending.hpp"

namespace rtrain::head {

class EventLoop;

class Intake {
  public:
    using Answer = std::function<void(const Decision&)>;
    Intake(EventLoop& loop) : loop_(&loop) {}  // implicit, so that an EventLoop can be passed as an Intake

    // `answer` is called when the event is durable and its effects are performed.
    void take(Event event, Answer answer = {}) const;
    void save(Aside aside) const;
    void note(state::Notice notice) const;
    // Decides at the next turn of the loop if the newest batch is full. To be called for news that may wait.
    void decide_when_full() const;
    // After a pause, commits the news so far with their numbers in one group, and acknowledges them.
    void later_acknowledge() const;

  private:
    friend class Auditing;
    EventLoop* loop_;
};

}  // namespace rtrain::head
