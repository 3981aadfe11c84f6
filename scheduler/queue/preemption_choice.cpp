// See preemption_choice.hpp. The shortest sufficient prefix of the sorted victims is always found, but one expensive
// run can replace several cheap ones. So single runs are tried next, and then sets in the order of their sum, while
// they are cheaper than the best choice. The number of tries is bounded, because each one places a gang.
#include "scheduler/queue/preemption_choice.hpp"

#include <algorithm>
#include <queue>

#include "scheduler/model/limits.hpp"

namespace rtrain::core {
namespace {

struct Choice {
    std::int64_t lost = 0;
    std::vector<std::size_t> of;  // indexes into `all`, ascending
    bool dearer_than(const Choice& other) const {
        if (lost != other.lost) return lost > other.lost;
        if (of.size() != other.of.size()) return of.size() > other.of.size();
        return of > other.of;
    }
};
struct Dearer {
    bool operator()(const Choice& a, const Choice& b) const { return a.dearer_than(b); }
};

Victims victims_of(const Victims& all, const Choice& choice) {
    Victims chosen;
    for (const std::size_t i : choice.of) chosen.push_back(all[i]);
    return chosen;
}

// Returns the shortest prefix of `all` that is enough, without those of its victims that turn out to be unneeded.
Choice greedy(const Victims& all, const Enough& enough) {
    std::size_t most = all.size();
    for (std::size_t few = 0; most - few > 1;) {
        const std::size_t middle = few + (most - few) / 2;
        (enough({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(middle)}) ? most : few) = middle;
    }
    Choice choice;
    for (const Victim& victim :
         without_unneeded({all.begin(), all.begin() + static_cast<std::ptrdiff_t>(most)}, enough)) {
        choice.of.push_back(static_cast<std::size_t>(std::lower_bound(all.begin(), all.end(), victim) - all.begin()));
        choice.lost += victim.lost;
    }
    return choice;
}

// Counts how many calls of `enough`, and how many sets of victims, may still be tried.
struct Tries {
    const Victims& all;
    const Search& search;
    std::size_t looks = search.looks, sets = limits::victim_sets_most;
    bool over() const { return looks == 0 || sets == 0; }
    bool enough(const Choice& choice) {
        --sets;
        const Victims some = victims_of(all, choice);
        if (!search.possible(some)) return false;
        --looks;
        return search.enough(some);
    }
};

// Returns the cheapest sufficient set. Each set has two successors: with the next run added, and with its last run
// replaced by the next one. So every set is visited once, in ascending order of its sum, and the first sufficient one
// is the cheapest.
Choice cheapest_set(Tries& tries, Choice best, std::size_t singles_tried) {
    const Victims& all = tries.all;
    std::priority_queue<Choice, std::vector<Choice>, Dearer> sets;
    sets.push({.lost = all.front().lost, .of = {0}});
    while (!tries.over() && !sets.empty()) {
        const Choice set = sets.top();
        sets.pop();
        if (!best.dearer_than(set)) break;
        const std::size_t last = set.of.back();
        const bool tried = set.of.size() == 1 && last < singles_tried;
        if (!tried && tries.enough(set)) return set;
        if (last + 1 == all.size()) continue;
        Choice more = set, instead = set;
        more.of.push_back(last + 1);
        more.lost += all[last + 1].lost;
        instead.of.back() = last + 1;
        instead.lost += all[last + 1].lost - all[last].lost;
        sets.push(std::move(more));
        sets.push(std::move(instead));
    }
    return best;
}

}  // namespace

Victims without_unneeded(Victims chosen, const Enough& enough) {
    for (std::size_t i = chosen.size(); i-- > 0;) {
        Victims others = chosen;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        if (enough(others)) chosen = std::move(others);
    }
    return chosen;
}

Victims cheapest(const Victims& all, const Search& search) {
    if (all.empty()) return {};
    Choice best = greedy(all, search.enough);
    Tries tries{.all = all, .search = search};
    std::size_t singles = 0;
    for (; singles < all.size() && tries.looks > search.looks / 2 && tries.sets > limits::victim_sets_most / 2;
         ++singles) {
        Choice single{.lost = all[singles].lost, .of = {singles}};
        if (!best.dearer_than(single)) break;
        if (tries.enough(single)) best = std::move(single);
    }
    return victims_of(all, cheapest_set(tries, std::move(best), singles));
}

}  // namespace rtrain::core
