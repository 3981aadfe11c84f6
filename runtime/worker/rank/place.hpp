// The place of a rank: which process represents the rank, and the identity with which this process requests the place.
// Invariant: settings and process never change, so any thread reads them without a lock.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "runtime/worker/frames/frames.hpp"

namespace rtrain::worker {

struct Settings {  // from the environment
    std::string socket, key, attempt;
    std::uint32_t rank = 0;
    std::chrono::milliseconds agent_wait{};  // time after which a call fails if no agent is connected
};

class RankPlace {
  public:
    RankPlace(Settings settings, std::int64_t process) : settings_(std::move(settings)), process_(process) {}

    const Settings& settings() const { return settings_; }
    bool is_own() const { return holder_ == 0; }  // true unless the agent has named another process, or none
    void requested() { holder_ = 0; }             // a hello was sent; until its answer the place counts as own
    void welcomed(std::int64_t holder) { holder_ = holder; }  // `holder`: as in Welcome
    // The process was welcomed without a request for the place. An older agent does not know that and names no holder.
    void welcomed_to_read();
    std::string refusal() const;  // why this process may not report; requires !is_own()
    Hello hello(Place place) const;

  private:
    const Settings settings_;
    const std::int64_t process_;
    std::int64_t holder_ = 0;  // 0: this process; -1: no process; otherwise the process that has the place
};

}  // namespace rtrain::worker
