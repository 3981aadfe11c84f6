// The order of the waiting runs, one after the other, while some of them are being placed. Inside of the core only.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/shares.hpp"

namespace rtrain::core {

struct Turn {  // whose turn it is
    const Line* line = nullptr;
    std::uint32_t shape = 0;
    RunId run;
};

// A run that retries so soon keeps its place against those behind it.
inline constexpr Duration backoff_keeps_place{10'000};

class Order {
  public:
    Order(const Ledger& ledger, FairShare shares, Time now);
    std::optional<Turn> next();   // each run once
    void skip(const Turn& turn);  // the rest of its line that has the same shape

  private:
    struct Open {
        const Line* line = nullptr;
        const Ledger::Batches* batches = nullptr;
        std::set<std::pair<Waiter, std::uint32_t>> heads;  // the oldest of each shape
    };
    void open_priority();
    std::optional<Turn> next_by_share();
    std::vector<Turn> promised_;  // of this priority: those that keep their place come first, the oldest at the back
    std::set<RunId> seen_;

    const Ledger& ledger_;
    FairShare shares_;
    std::vector<RunId> keep_place_;
    std::map<Line, Ledger::Batches>::const_iterator line_;
    std::vector<Open> lines_;
};

}  // namespace rtrain::core
