// Computes how a run's time was used. Each millisecond from its submission to its end, or now, has one cause, so the
// causes sum to the run's wall time. docs/goodput.md is the list for users; docs/decisions/0037-goodput.md gives the
// reasons.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <numeric>

#include "scheduler/index/cluster.hpp"

namespace rtrain {

// In the order of precedence: a second has the first cause that applies, and is productive if none does.
enum class TimeCause { queue, detect, schedule, start, restore, replay, checkpoint, data, straggler, productive };
inline constexpr std::array time_causes = {
    TimeCause::queue,  TimeCause::detect,     TimeCause::schedule, TimeCause::start,     TimeCause::restore,
    TimeCause::replay, TimeCause::checkpoint, TimeCause::data,     TimeCause::straggler, TimeCause::productive};
const char* to_text(TimeCause cause);  // "queue" and so on: the names that all output formats use

// The waits of an attempt's ranks while they ran, as means over the ranks. Workers measure them; records do not contain
// them.
struct RankWaits {
    Duration checkpoint, data, straggler;
    bool operator==(const RankWaits&) const = default;
};
using WaitsOf = std::function<RankWaits(const AttemptId&)>;

class TimeByCause {
  public:
    Duration operator[](TimeCause cause) const { return {ms_[static_cast<std::size_t>(cause)]}; }
    std::int64_t& ms(TimeCause cause) { return ms_[static_cast<std::size_t>(cause)]; }
    Duration wall() const { return {std::accumulate(ms_.begin(), ms_.end(), std::int64_t{0})}; }
    // Returns the productive fraction of the time since the first placement; 0 before it. The time in the queue does
    // not count.
    double goodput() const;
    bool operator==(const TimeByCause&) const = default;

  private:
    std::array<std::int64_t, time_causes.size()> ms_{};
};

TimeByCause time_by_cause(const Cluster& cluster, const Run& run, Time now, const WaitsOf& waits_of);

}  // namespace rtrain
