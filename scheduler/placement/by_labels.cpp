// Places PACK and SPREAD gangs whose bundles have equal demands and different label selectors. Assigning bundles to
// nodes is then a matching of kinds of bundles with free slots. Augmenting paths decide it exactly and quickly; a
// search over nodes would try the same few slots in all orders.
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "scheduler/placement/room.hpp"

namespace rtrain::placing {

bool selector_before(const LabelSelector& a, const LabelSelector& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
        return std::tie(x.key, x.values, x.negated) < std::tie(y.key, y.values, y.negated);
    });
}

namespace {

constexpr std::int64_t steps_most =
    4'000'000;  // steps along paths: some tens of milliseconds; usually only a few per bundle
constexpr std::uint32_t unmatched = UINT32_MAX;

struct Kind {  // the bundles with one selector
    std::vector<std::uint32_t> bundles;
    std::vector<std::uint32_t> slots;  // indices of the matching nodes
    std::uint64_t room = 0;            // sum of the free slots of these nodes
};

struct Slots {  // the slots of one node
    const Candidate* at = nullptr;
    std::uint32_t left = 0;
    Amount gpus, cpus;
    bool off_gpus = false;  // true: the bundles need no GPU, and the node has none
    // pairs: a kind of bundle, and how many of that kind are on this node
    std::vector<std::pair<std::uint32_t, std::uint32_t>> occupants;

    std::uint32_t seated() const {
        std::uint32_t all = at->seated;
        for (const auto& [kind, count] : occupants) all += count;
        return all;
    }
    void add(std::uint32_t kind) {
        for (auto& [known, count] : occupants)
            if (known == kind) return static_cast<void>(++count);
        occupants.emplace_back(kind, 1);
    }
    void remove(std::uint32_t kind) {
        for (auto& [known, count] : occupants) count -= known == kind;
        std::erase_if(occupants, [](const auto& occupant) { return occupant.second == 0; });
    }
};

class LabelMatching {
  public:
    LabelMatching(const std::vector<Candidate>& candidates, const Wanted& wanted);
    Attempted place();

  private:
    bool likes(const Slots& a, const Slots& b) const;  // true if the strategy prefers a to b
    bool seat(std::uint32_t kind);
    bool move_others(std::uint32_t kind);
    Seats seats() const;

    const Wanted& wanted_;
    const bool packing_;
    std::vector<Kind> kinds_;
    std::vector<Slots> slots_;
    std::int64_t steps_ = steps_most;
};

LabelMatching::LabelMatching(const std::vector<Candidate>& candidates, const Wanted& wanted)
    : wanted_(wanted), packing_(packs(wanted.request.strategy)) {
    const Resources& demand = wanted.shape().demand;
    const bool gpu_less = amount_of(demand, gpu_key).ticks == 0;
    for (const Candidate& candidate : candidates)
        if (const auto room =
                slots(*candidate.free, candidate.gpus, demand, static_cast<std::uint32_t>(wanted.missing.size())))
            slots_.push_back({.at = &candidate,
                              .left = room,
                              .gpus = gpus_free(candidate.gpus),
                              .cpus = amount_of(*candidate.free, cpu_key),
                              .off_gpus = gpu_less && candidate.gpus.empty(),
                              .occupants = {}});
    std::map<LabelSelector, std::uint32_t, decltype(&selector_before)> known(selector_before);
    for (const std::uint32_t index : wanted.missing) {
        const LabelSelector& selector = wanted.request.bundles[index].selector;
        const auto [entry, fresh] = known.try_emplace(selector, static_cast<std::uint32_t>(kinds_.size()));
        if (fresh) {
            Kind& kind = kinds_.emplace_back();
            for (std::uint32_t i = 0; i < slots_.size(); ++i) {
                if (!matches(selector, slots_[i].at->node->labels)) continue;
                kind.slots.push_back(i);
                kind.room += slots_[i].left;
            }
        }
        kinds_[entry->second].bundles.push_back(index);
    }
}

// PACK: nodes in use, then nodes with the most slots. SPREAD: nodes with the fewest bundles.
bool LabelMatching::likes(const Slots& a, const Slots& b) const {
    const std::uint32_t on_a = a.seated(), on_b = b.seated();
    if (packing_ && (on_a > 0) != (on_b > 0)) return on_a > 0;
    if (!packing_ && on_a != on_b) return on_a < on_b;
    if (a.off_gpus != b.off_gpus) return a.off_gpus;
    if (packing_ && a.left != b.left) return a.left > b.left;
    if (a.gpus != b.gpus) return packing_ ? a.gpus < b.gpus : a.gpus > b.gpus;
    if (a.cpus != b.cpus) return packing_ ? a.cpus < b.cpus : a.cpus > b.cpus;
    return a.at->node->id < b.at->node->id;
}

bool LabelMatching::seat(std::uint32_t kind) {
    Slots* best = nullptr;
    for (const std::uint32_t i : kinds_[kind].slots)
        if (slots_[i].left > 0 && (best == nullptr || likes(slots_[i], *best))) best = &slots_[i];
    if (best == nullptr) return move_others(kind);
    best->add(kind);
    --best->left;
    return true;
}

// Every node that the kind may use is full. Finds the shortest path on which each bundle moves to another node, up to
// one with room.
bool LabelMatching::move_others(std::uint32_t kind) {
    // key: a kind of bundle; value: the node from which a bundle of this kind can move
    std::vector<std::uint32_t> from(slots_.size(), unmatched);
    std::vector<std::uint32_t> by(kinds_.size(), unmatched);  // the node from which a bundle of this kind can move
    std::vector<std::uint32_t> queue{kind};
    std::vector<bool> seen(kinds_.size());
    seen[kind] = true;
    for (std::size_t next = 0; next < queue.size(); ++next)
        for (const std::uint32_t i : kinds_[queue[next]].slots) {
            if (--steps_ < 0) return false;
            if (from[i] != unmatched) continue;
            from[i] = queue[next];
            if (slots_[i].left > 0) {
                --slots_[i].left;
                for (std::uint32_t to = i;;) {
                    const std::uint32_t moves = from[to];
                    slots_[to].add(moves);
                    if (moves == kind) return true;
                    to = by[moves];
                    slots_[to].remove(moves);
                }
            }
            for (const auto& [occupants, count] : slots_[i].occupants)
                if (!seen[occupants]) {
                    seen[occupants] = true;
                    by[occupants] = i;
                    queue.push_back(occupants);
                }
        }
    return false;
}

Seats LabelMatching::seats() const {
    Seats out(wanted_.request.bundles.size());
    std::vector<std::size_t> next(kinds_.size());
    for (const Slots& node_slots : slots_) {
        Room room{.node = node_slots.at->node,
                  .free = *node_slots.at->free,
                  .gpus = node_slots.at->gpus,
                  .seated = node_slots.at->seated};
        for (const auto& [kind, count] : node_slots.occupants)
            for (std::uint32_t i = 0; i < count; ++i) {
                const std::uint32_t index = kinds_[kind].bundles[next[kind]++];
                out[index] = {.node = node_slots.at->node->id, .gpus = room.take(wanted_.request.bundles[index])};
            }
    }
    return out;
}

Attempted LabelMatching::place() {
    std::vector<std::uint32_t> order(kinds_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return kinds_[a].room < kinds_[b].room; });
    for (const std::uint32_t kind : order)
        if (kinds_[kind].room < kinds_[kind].bundles.size()) return {};
    for (const std::uint32_t kind : order)
        for (std::size_t i = 0; i < kinds_[kind].bundles.size(); ++i)
            if (!seat(kind)) return {.seats = std::nullopt, .proved = steps_ >= 0};
    return {.seats = seats(), .proved = true};
}

}  // namespace

std::optional<Attempted> place_by_labels(const std::vector<Candidate>& candidates, const Wanted& wanted) {
    for (std::size_t i = 1; i < wanted.missing.size(); ++i)
        if (wanted.bundle(i).demand != wanted.shape().demand) return std::nullopt;
    return LabelMatching(candidates, wanted).place();
}

}  // namespace rtrain::placing
