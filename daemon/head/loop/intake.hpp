// The way into the event loop: a place to put events, and what is saved beside them. Whoever is given one can do
// nothing else with the loop.
#pragma once

#include <functional>

#include "daemon/head/loop/pending.hpp"

namespace rtrain::head {

class EventLoop;

class Intake {
  public:
    using Answer = std::function<void(const Decision&)>;
    Intake(EventLoop& loop) : loop_(&loop) {}  // implicit: it is a part of what the loop is

    void take(Event event, Answer answer = {}) const;  // `answer`: the event is durable, and its effects are out
    void save(Aside aside) const;
    void note(state::Notice notice) const;
    void decide_when_full() const;   // news came that may wait, but not too many of them
    void later_acknowledge() const;  // what came becomes durable with its news' numbers, and is acknowledged, grouped

  private:
    friend class Auditing;
    EventLoop* loop_;
};

}  // namespace rtrain::head
