// Chooses the runs to preempt with the fewest lost GPU-seconds. Used inside of the scheduler's core only.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/model/ids.hpp"

namespace rtrain::core {

struct Victim {
    std::int64_t lost = 0;  // the work that its end would lose, in a unit of the caller's choice
    AttemptId attempt;
    std::uint32_t keeps = 0;  // number of the attempt's workers that stay; 0: the attempt ends
    auto operator<=>(const Victim&) const = default;
};
using Victims = std::vector<Victim>;
// Returns true if the preemptor fits without these victims. Invariant: if it returns true for a set, it returns true
// for each larger set.
using Enough = std::function<bool(const Victims&)>;

struct Search {
    Enough enough;
    Enough possible;        // a cheap check that returns false only if `enough` would
    std::size_t looks = 0;  // the most calls of `enough`, apart from those for the first choice
};
// Returns the victims out of `all` that are enough together and lose the least work in sum; with equal loss, the
// fewest. `all` is sorted by `lost`. If `looks` are spent first, it returns the best choice so far.
Victims cheapest(const Victims& all, const Search& search);
// Removes each victim without which the others are enough. Tries the most expensive victim first.
Victims without_unneeded(Victims chosen, const Enough& enough);

}  // namespace rtrain::core
