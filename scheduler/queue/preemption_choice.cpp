// See preemption_choice.hpp. A prefix of the cheapest is a choice that is always found, but one dearer run may do for
// several cheap ones. So single runs are tried as well, and then sets in the order of their sum, as long as they are
// cheaper than what was found, and within a bound: each look places a gang.
#include "scheduler/queue/preemption_choice.hpp"

#include <algorithm>
#include <queue>

#include "scheduler/model/limits.hpp"

namespace rtrain::core {
namespace {

struct Choice {
    std::int64_t lost = 0;
    std::vector<std::size_t> of;  // ascending places in all
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

// The shortest prefix that does, less those that turn out not to be needed.
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

// What is left of the looks: sets are tried in the order of their sum.
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

// From each set come two dearer ones: the next run instead of its last, and as well; so every set comes once, and the
// first that does is the cheapest.
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
