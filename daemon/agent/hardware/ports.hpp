// Rendezvous ports: from 20000-29999, free when tried, and not given again for a minute, since a port whose process has
// just ended may still be held by the kernel.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "scheduler/model/ids.hpp"

namespace rtrain::agent {

class Ports {
  public:
    static constexpr std::uint16_t first = 20'000, last = 29'999;
    static constexpr std::int64_t rest_ms = 60'000;

    // `start` spreads several agents of one machine over the range. `free` returns whether a port can be bound now.
    Ports(std::uint16_t start, std::function<bool(std::uint16_t)> free);
    std::optional<std::uint16_t> take(Time now);  // nullopt if all are in use

  private:
    std::uint16_t next_;
    std::function<bool(std::uint16_t)> free_;
    std::map<std::uint16_t, Time> given_;
};

bool can_bind(std::uint16_t port);  // on all addresses, without SO_REUSEADDR

}  // namespace rtrain::agent
