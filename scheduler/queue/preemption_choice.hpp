// Which of those who may be preempted are: the fewest lost GPU-seconds. Inside of the core only.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/model/ids.hpp"

namespace rtrain::core {

struct Victim {
    std::int64_t lost = 0;  // since its last commit
    AttemptId attempt;
    std::uint32_t keeps = 0;  // so many of its workers
    auto operator<=>(const Victim&) const = default;
};
using Victims = std::vector<Victim>;
// Returns whether it is enough when these go. If it is, it is when more go.
using Enough = std::function<bool(const Victims&)>;

struct Search {
    Enough enough;
    Enough possible;        // cheap: no only where they are not enough
    std::size_t looks = 0;  // so many sets are asked whether they are enough, beside the first that is found
};
// Of `all`, the cheapest first, who are enough together: those who lose the least in sum, and of such the fewest. It is
// the best of all choices unless the looks are spent before; then still the best that was seen.
Victims cheapest(const Victims& all, const Search& search);
Victims without_unneeded(Victims chosen, const Enough& enough);  // the dearest go first

}  // namespace rtrain::core
