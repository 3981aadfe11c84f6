// The attempts on this node, from their preparation until they are closed: the facts that the performers need beside
// the machine's state. Each value has one writer, named beside it.
#pragma once

#include <cstdint>
#include <map>

#include "daemon/agent/disk/start_state.hpp"
#include "daemon/agent/preparation/preparation.hpp"

namespace rtrain::agent {

struct LiveAttempt {
    Context context{};              // Preparations; null: not prepared yet
    protocol::Launch launch{};      // WorkerStarts; without its secrets
    StartState start_state{};       // Checkpoints, Preparations
    std::uint32_t number = 0;       // SavedAttempts, WorkerStarts
    std::int64_t staged_bytes = 0;  // Checkpoints; bytes of the last checkpoint, on this node
    bool killed = false;            // WorkerStarts; a worker died of a signal, so leftover processes are looked for
    bool adopted = false;           // adopt_kept_attempts; an earlier agent launched its workers
};

class LiveAttempts {
  public:
    const LiveAttempt* find(AttemptKey key) const {
        const auto entry = attempts_.find(key);
        return entry == attempts_.end() ? nullptr : &entry->second;
    }
    LiveAttempt* change(AttemptKey key) {
        const auto entry = attempts_.find(key);
        return entry == attempts_.end() ? nullptr : &entry->second;
    }
    LiveAttempt& open(AttemptKey key) { return attempts_[key]; }  // returns the existing entry, or a new one
    void close(AttemptKey key) { attempts_.erase(key); }
    const std::map<AttemptKey, LiveAttempt>& all() const { return attempts_; }

  private:
    std::map<AttemptKey, LiveAttempt> attempts_;
};

}  // namespace rtrain::agent
