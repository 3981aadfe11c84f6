// The metrics of each attempt. They are stored on this node before their ranks may continue, then appended to the run's
// journal.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "daemon/agent/disk/journal.hpp"
#include "daemon/agent/machine/machine.hpp"
#include "daemon/agent/performers/live_attempts.hpp"
#include "daemon/agent/performers/this_node.hpp"
#include "daemon/net/loop/background.hpp"

namespace rtrain::agent {

class MetricsJournals {
  public:
    MetricsJournals(net::Background background, const ThisNode& node, const LiveAttempts& attempts)
        : background_(background), node_(node), attempts_(attempts) {}
    void add(const JournalMetrics& out);
    void open(AttemptKey key);     // opens the journal of an adopted attempt, which may hold rows of an earlier agent
    void deliver(AttemptKey key);  // delivers the present rows soon
    std::shared_ptr<Journal> find(AttemptKey key) const;  // null: no metrics yet
    void close(AttemptKey key) { journals_.erase(key); }

  private:
    struct OfAttempt {
        std::shared_ptr<Journal> journal;
        bool scheduled = false;
        std::string trouble{};  // the error of the last delivery, which was logged
    };
    OfAttempt& opened(AttemptKey key);
    void deliver_in(AttemptKey key, std::int64_t ms);
    void deliver_now(AttemptKey key);
    void delivered(AttemptKey key, const Status& kept);

    const net::Background background_;
    const ThisNode& node_;
    const LiveAttempts& attempts_;
    std::map<AttemptKey, OfAttempt> journals_;  // the journals of live attempts
};

}  // namespace rtrain::agent
